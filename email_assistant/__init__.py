"""Triage mail, draft replies and schedule meetings, asking first."""
