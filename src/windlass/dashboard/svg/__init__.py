"""Charts and graphs as SVG markup, drawn on the server.

Every function returns markup whose texts are escaped. It has no scripts and no inline styles, because the content
security policy of the dashboard forbids them: classes name what a shape means, and the style sheet gives it a color.
"""
