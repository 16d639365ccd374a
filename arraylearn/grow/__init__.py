"""What the growth of trees needs below the families: binned columns."""
