"""What the compiler and the machine have to say, as typed values and as text."""
