"""The type checker that annotations are held to while tests run."""

from beartype import BeartypeConf, beartype

check = beartype(conf=BeartypeConf(is_pep484_tower=True))
"""An int is a float wherever Python takes it for one."""
