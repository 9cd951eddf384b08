"""The mail whose cost is measured: ordinary letters, an advertisement, and a newsletter as its senders build them."""

from dataclasses import dataclass

PERSON = "ada@bench.example"


@dataclass(frozen=True, slots=True)
class Letter:
    sender: str
    """A bare address."""
    subject: str
    text: str = ""
    html: str = ""


PROMOTION = Letter(
    "deals@shoes.example",
    "Last hours: 40 % off all running shoes",
    """\
Hi Ada,

our summer sale ends tonight. Every running shoe is 40 % off, and delivery is free from 60 euros.
Shop now: https://shoes.example/sale?utm_source=mail&utm_campaign=summer&cid=88213

You get this mail because you bought from us. Unsubscribe: https://shoes.example/unsubscribe?u=88213
""",
)

INVOICE = Letter(
    "billing@power.example",
    "Your electricity bill for May is ready",
    """\
Dear Ada,

your bill for May over 64.20 euros is in your customer account. We will collect it from your bank account on 14 June;
you need not do anything.

Kind regards
Your power company
""",
)

DINNER = Letter(
    "nora@friends.example",
    "Re: Dinner next week?",
    """\
Hi Ada,

lovely to hear from you! Thursday would suit us best. Shall we say seven, at the Italian place on the corner? Is Tom
coming too, and shall I book a table for four?

Hugs
Nora

On Mon, 26 May 2031 at 19:12, Ada <ada@bench.example> wrote:
> Hi Nora,
>
> we haven't seen each other for ages. Would you two like to have dinner with us one evening next week? We could do
> Wednesday or Thursday, and we are easy about the place.
>
> Best
> Ada
""",
)

PLANNING = Letter(
    "ruth@school.example",
    "Planning of the autumn courses",
    """\
Dear Ada,

we should plan the autumn courses before the catalogue goes to print. Do you have 45 minutes on Wednesday 4 June or
Thursday 5 June, in the morning if possible? A video call is fine.

Best wishes
Ruth Adler
Head of adult education
""",
)

_ARTICLES = (
    ("The bridge reopens", "After two years of work, trams cross the old bridge again from Monday on."),
    ("Where to swim this summer", "Six lakes within an hour by train, from the shallow to the cold and deep."),
    (
        "A library that lends tools",
        "Drills, ladders and a cider press: what the street shares, and who mends it.",
    ),
    ("Bread without a rush", "Three bakers let their dough rest for two days, and tell why."),
    ("The night market is back", "Every first Friday, forty stalls between the station and the river."),
    ("Ask the gardener", "Slugs, blossom rot, and whether coffee grounds help anything at all."),
    ("Concerts in the courtyard", "Eight evenings, no amplifiers, and a plan for rain."),
    ("What the council decided", "Cycle lanes on the ring road, a later closing hour, and no new car park."),
)

_ARTICLE = """\
<tr><td align="left" valign="top" style="padding:0 0 24px 0;font-family:Georgia,'Times New Roman',serif;font-size:16px;\
line-height:24px;color:#333333;mso-line-height-rule:exactly;"><table border="0" cellpadding="0" cellspacing="0" \
width="100%" role="presentation"><tbody><tr><td class="stack" width="180" valign="top"><a href="https://click.\
weekly.example/ls/click?upn=u001.a9Xk{number}Qm7tZr-2Bf1yLhVvC0pWnE5sJd8oGuBiKe4RxT6MzHqYwAj3NcFb&amp;utm_source=\
newsletter&amp;utm_medium=email&amp;utm_campaign=weekly-21"><img src="https://img.weekly.example/{number}/360x240.jpg" \
width="180" height="120" alt="" border="0" style="display:block;width:180px;height:120px;border-radius:4px;"></a></td>\
<td class="stack" valign="top" style="padding-left:20px;"><h2 style="margin:0 0 8px 0;font-size:20px;\
line-height:26px;">\
<a href="https://click.weekly.example/ls/click?upn=u001.a9Xk{number}Qm7tZr-2Bf1yLhVvC0pWnE5sJd8oGuBiKe4RxT6MzHqYwAj" \
style="color:#111111;text-decoration:none;">{title}</a></h2><p style="margin:0;">{text}</p></td></tr></tbody></table>\
</td></tr>
"""

_NEWSLETTER = """\
<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><title>The Weekly</title><style type="text/css">
body{{margin:0;padding:0;-webkit-text-size-adjust:100%;background:#f4f1ea}} table{{border-collapse:collapse}}
@media only screen and (max-width:600px){{.stack{{display:block!important;width:100%!important}}}}
</style></head><body><div style="display:none;max-height:0;overflow:hidden;">Trams, lakes and slow bread</div>
<table border="0" cellpadding="0" cellspacing="0" width="100%" role="presentation"><tbody><tr><td align="center">
<table border="0" cellpadding="0" cellspacing="0" width="600" role="presentation"><tbody>
<tr><td><h1 style="font-family:Georgia,serif;font-size:32px;">The Weekly</h1><p>What happens in town, every Friday</p>
</td></tr>
{articles}
<tr><td style="font-size:12px;color:#999999;"><p>You get this because you signed up on weekly.example.
<a href="https://weekly.example/unsubscribe?u=5f2c81&amp;id=21">Unsubscribe</a> or
<a href="https://weekly.example/preferences?u=5f2c81">change what you get</a>.</p>
<img src="https://track.weekly.example/open.gif?u=5f2c81&amp;id=21" width="1" height="1" alt=""></td></tr>
</tbody></table></td></tr></tbody></table></body></html>
"""

NEWSLETTER = Letter(
    "friday@weekly.example",
    "The bridge reopens, six lakes, and bread without a rush",
    html=_NEWSLETTER.format(
        articles="".join(
            _ARTICLE.format(number=number, title=title, text=text) for number, (title, text) in enumerate(_ARTICLES, 1)
        )
    ),
)
