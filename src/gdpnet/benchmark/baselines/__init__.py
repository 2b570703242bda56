"""Baselines: the methods that GDPNet is compared with."""
