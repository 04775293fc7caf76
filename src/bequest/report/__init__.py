"""What a run looks like to others: documents, files, figures. Reads Runs, never starts one."""
