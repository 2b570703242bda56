"""What GDPNet is compared with: one method a file."""
