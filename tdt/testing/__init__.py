"""What tests of numerical code need: gradients against finite differences."""
