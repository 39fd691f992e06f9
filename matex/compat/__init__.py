"""Names that scripts written for Horovod use."""
