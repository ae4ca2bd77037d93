"""Gemini: generateContent."""
