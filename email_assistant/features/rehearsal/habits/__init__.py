"""What a mail needs, judged without a model: from what this person did with earlier mail, and from its words."""
