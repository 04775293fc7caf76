"""The paper's studies, one declaration each."""
