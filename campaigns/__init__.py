"""Campaigns against the program: kills, full disks and hostile inputs, each in a process of its own."""
