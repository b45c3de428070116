"""What the real transformers renders with the chat templates of tests/data/fixtures/chat_templates for drawn conversations,
and what its Jinja makes of small templates: tests/data/fixtures/chat_templates.json and chat_language.json. Run by `make
peer`; the results are committed. With the word `show`, a template's name and a number it prints that one text."""

import datetime
import json
import pathlib
import random
import sys

from transformers.utils import chat_template_utils

ROOT = pathlib.Path(__file__).parents[2]
OUT = ROOT / "tests" / "data" / "fixtures"
CLOCK = "2026-03-07 09:05:00"
CONVERSATIONS = 120


class stopped_clock(datetime.datetime):
    @classmethod
    def now(cls, tz=None):
        return cls.strptime(CLOCK, "%Y-%m-%d %H:%M:%S")


chat_template_utils.datetime = stopped_clock

WORDS = ["plain", "two words", " leading", "trailing ", "lines\nof\ttext\n", "quotes ' and \"", "both '\" \\ back", "<|im_end|>", "{{ x }} {% y %}",
         "naïve Zürich", "日本語のテキスト", "🙂 👩‍👩‍👧", "\u00a0\u2003spaces\u3000", "", "\n\n", "a</think>\n\nb", "<think>\nwhy\n</think>\n\nso", "/no_think now",
         "tab\tand \x07bell", "e\u0301 \u200b zero", "<tool_response>x</tool_response>", "%s %d {0}", "1e5", "null"]
VALUES = [0, -1, 7, 2**53, -(2**63), 2**63 - 1, 0.1, 1.0, -2.5e-7, 1e16, 123456789.125, 1e15, True, False, None, "", "text", "it's \"q\"", "ünï", [], {},
          [1, "two", None, [3.5, {"k": "v"}]], {"b": 1, "a": {"c": [True]}}, "\n"]
TYPES = [{"type": "string"}, {"type": "integer", "default": 3}, {"type": "number"}, {"type": "boolean", "default": False},
         {"type": "array", "items": {"type": "string"}}, {"type": "array"}, {"type": ["string", "null"]}, {"type": "string", "enum": ["a", "b's"]},
         {"type": "object", "properties": {"x": {"type": "integer"}, "y": {"type": "array", "items": {"type": "number"}}}, "required": ["x"]},
         {"type": "object", "additionalProperties": {"type": "integer"}}, {"description": "no type"}]
NAMES = ["city", "unit", "Count", "a_b", "items", "x"]


def drawn_tool(draw):
    properties = {n: dict(draw.choice(TYPES)) for n in draw.sample(NAMES, draw.randint(0, 4))}
    function = {"name": draw.choice(["weather", "add", "find_all"]), "description": draw.choice(["Says it.", "Two\nlines", ""]),
                "parameters": {"type": "object", "properties": properties}}
    if draw.random() < 0.6:
        function["parameters"]["required"] = list(properties)[:2]
    if draw.random() < 0.2:
        function["return"] = {"type": "string"}
    return function if draw.random() < 0.15 else {"type": "function", "function": function}


def drawn_call(draw):
    arguments = {n: draw.choice(VALUES) for n in draw.sample(NAMES, draw.randint(0, 3))}
    call = {"type": "function", "function": {"name": draw.choice(["weather", "add"]), "arguments": arguments}}
    if draw.random() < 0.15:
        call["function"]["arguments"] = json.dumps(arguments)
    if draw.random() < 0.7:
        call["id"] = "abc123XYZ" if draw.random() < 0.7 else "short"
    return call


def drawn_messages(draw):
    def text():
        return " ".join(draw.choice(WORDS) for _ in range(draw.randint(1, 3)))

    messages = []
    if draw.random() < 0.5:
        messages.append({"role": "system", "content": text()})
    for turn in range(draw.randint(0 if draw.random() < 0.1 else 1, 3)):
        messages.append({"role": "user", "content": text()})
        if draw.random() < 0.3:
            calls = [drawn_call(draw) for _ in range(1 if draw.random() < 0.7 else 2)]
            messages.append({"role": "assistant", "content": draw.choice([None, "", "calling"]), "tool_calls": calls})
            for call in calls:
                result = {"role": "tool", "content": text() if draw.random() < 0.7 else draw.choice(VALUES)}
                if draw.random() < 0.7:
                    result.update(name=call["function"]["name"], tool_call_id="abc123XYZ")
                messages.append(result)
        messages.append({"role": "assistant", "content": text()})
        if draw.random() < 0.2:
            messages[-1][draw.choice(["reasoning_content", "thinking", "reasoning"])] = text()
    odd = draw.random()
    if odd < 0.05 and messages:
        messages[-1].pop("content")
    elif odd < 0.1 and messages:
        messages[-1]["content"] = [{"type": "image"}, {"type": "text", "text": text()}]
    elif odd < 0.13:
        messages.append({"role": "judge", "content": text(), "weight": 0.5})
    elif odd < 0.25:
        messages.append({"role": "user", "content": text()})
    return messages


def drawn_variables(draw):
    out = {"messages": chat_template_utils._alias_reasoning_fields(drawn_messages(draw)), "tools": None, "documents": None,
           "add_generation_prompt": draw.random() < 0.5, "bos_token": "<s>", "eos_token": "</s>"}
    if draw.random() < 0.4:
        out["tools"] = [drawn_tool(draw) for _ in range(draw.randint(1, 3))]
    if draw.random() < 0.2:
        out["documents"] = [{"title": "T", "text": draw.choice(WORDS)} for _ in range(draw.randint(1, 2))]
    for name, values in (("enable_thinking", [True, False]), ("controls", [["a", 1]]), ("date_string", ["1 May 2026"]), ("tools_in_user_message", [False]), ("joined", ["/"])):
        if draw.random() < 0.25:
            out[name] = draw.choice(values)
    return out


def rendered(source, variables):
    """Returns the text and the spans of generation in bytes; None if transformers refuses."""
    variables = json.loads(json.dumps(variables))
    try:
        texts, spans = chat_template_utils.render_jinja_template([variables.pop("messages")], chat_template=source, return_assistant_tokens_mask=True, **variables)
    except Exception:
        return None
    text = texts[0]
    return text, [[len(text[:at].encode()) for at in span] for span in spans[0]]


def fingerprint(text):
    """FNV-1a, 64 bits."""
    out = 0xCBF29CE484222325
    for byte in text.encode():
        out = (out ^ byte) * 0x100000001B3 % 2**64
    return f"{out:016x}"


def chat_fixture():
    draw = random.Random(47)
    pool = [drawn_variables(draw) for _ in range(CONVERSATIONS)]
    made = {}
    for path in sorted((OUT / "chat_templates").glob("*.jinja")):
        source = path.read_text()
        rows = []
        for number, variables in enumerate(pool):
            one = rendered(source, variables)
            rows.append(None if one is None else [fingerprint(one[0]), *sum(one[1], [])])
            if one is not None and number < 2:
                rows[-1][0] = one[0]
        made[path.stem] = rows
        print(path.stem, sum(r is not None for r in rows), "of", len(rows))
    return {"clock": CLOCK, "variables": pool, "rendered": made}


M = {"m": [{"role": "user", "content": "Hi there"}, {"role": "assistant", "content": None, "n": 2}, {"role": "user", "content": "ünï 🙂"}],
     "d": {"b": 1, "a": [1, 2.5, "x'y"], "items": "own"}, "s": " a-b  c\n", "n": 7, "f": 2.5, "t": True, "z": None, "l": [3, 1, 2, 1]}
LANGUAGE = [
    # white space
    "a\n  {% if t %}\n  b\n  {% endif %}\nc", "a {%- if t -%}  b  {%- endif -%}  c", "  {%+ if t %} x{% endif +%}\ny", "{{ n -}}  \n x {{- n }}", "{# c #}\nx{#- c -#}  y", "  {# c #}\n  x",
    "{% raw %} {{ x }} {%- endraw %} y", "{%- raw -%}  {{ x }}\n{% endraw %}\ny", "x\n", "x\n\n", "\r\nx\ry", "{{ '{{' }}{{ '%}' }}", "{{ {'a': {'b': 1}}['a']['b'] }}",
    "{% if t %}\n\n x\n{% endif %}\n", " {% set a = 1 %} {{ a }} {% set b = 2 -%} {{ b }}", "{{- s -}} x", "\t{% if t %}\tq{% endif %}",
    # literals and printing
    "{{ [1, 2.0, 'a', \"it's\", none, true, (1,), (), {'k': 'v', 1: 2}] }}", "{{ 1e16 }} {{ 1e15 }} {{ 0.0001 }} {{ 0.00001 }} {{ 123456.789 }} {{ -0.0 }} {{ 5e-324 }} {{ 1.7976931348623157e308 }}",
    r"{{ 'a\n\t\'\\\x41\u00e9\U0001F642\101\q' }}", "{{ 'a' 'b' }}", "{{ ['\\x00\\x1b\\u200b\\u00a0é\\U0001F642'] }}", "{{ d }} {{ m }}", "{{ undefined_one }}|{{ d.nothing }}|{{ [undefined_one] }}",
    "{{ 1_000 }} {{ 1_0.5 }} {{ 00 }}", "{{ none }} {{ None }} {{ true }} {{ False }}", "{{ range(3) }} {{ range(1, 9, 3) | list }} {{ d.keys() }} {{ d.values() }} {{ d.items() }}", "{{ ('x') }} {{ ('x',) }}",
    "{{ \"a\\\nb\" }}", "{{ 'é\\é' }}", "{{ [ 'é', '\\u0378', '\\ue000' ] }}",
    # operators
    "{{ 7 // 2 }} {{ -7 // 2 }} {{ 7 % -3 }} {{ 7.5 // 2 }} {{ -7.5 % 2 }} {{ 7 / 2 }} {{ 6 / 2 }} {{ 2 ** 3 ** 2 }} {{ 2 ** -1 }} {{ -2 ** 2 }} {{ 2 ** 0.5 }}", "{{ 1 + 2 * 3 - 4 }} {{ (1 + 2) * 3 }} {{ 1 ~ 2 ~ none ~ 'x' }} {{ 'a' * 3 }} {{ 3 * [1] }} {{ [1] + [2] }}",
    "{{ 1 < 2 < 3 }} {{ 1 < 3 < 2 }} {{ 1 == 1.0 == true }} {{ 'a' < 'b' }} {{ [1, 2] < [1, 3] }} {{ 'a' == 1 }} {{ none == none }} {{ (1,) == [1] }}", "{{ 'a' in 'cat' }} {{ 1 in l }} {{ 'b' in d }} {{ 1 not in l }} {{ 9 in range(10) }} {{ 'x' in none_such }}",
    "{{ 0 or 'x' }} {{ '' and 1 }} {{ not 0 }} {{ 1 and 2 }} {{ z or [] }} {{ not not t }}", "{{ 'y' if t else 'n' }} {{ 'y' if z }} {{ 1 if z else 2 if t else 3 }}", "{{ +n }} {{ -f }} {{ -t }} {{ true + true }}",
    "{{ '%s is %d, %5.2f%% %-4s|%04d' % ('x', 3, 2.5, 'ab', 7) }}", "{{ '%s' % n }} {{ '%s' % 'a' }} {{ '%s %s' % (1, [2]) }}", "{{ 1 + 'a' }}", "{{ 'a' + 1 }}", "{{ 1 < 'a' }}", "{{ none + 1 }}", "{{ 1 / 0 }}", "{{ 1 in 'a' }}", "{{ nope + 1 }}", "{{ [] < {} }}",
    "{{ 9007199254740993 == 9007199254740992.0 }} {{ 9223372036854775807 < 9223372036854775808.0 }}", "{{ 5.0 == 5 }} {{ 1e3 | int }} {{ 10 // 3.0 }} {{ -1.5 // 0.5 }}", "{{ f * 2 }} {{ f + n }} {{ n - f }}", "{{ {1: 'a', 1.0: 'b', true: 'c'} }}",
    # access
    "{{ m[0].role }} {{ m[-1]['content'] }} {{ m[9] }} {{ m[0][0] }} {{ d['a'][1] }} {{ 'héllo'[1] }} {{ 'abc'[-1] }} {{ 'abc'[5] }}", "{{ l[1:] }} {{ l[:-1] }} {{ l[::-1] }} {{ l[::2] }} {{ l[5:] }} {{ 'ünïcode'[1:4] }} {{ 'abc'[::-1] }} {{ 'abcdef'[4:1:-2] }} {{ l[-99:99] }}",
    "{{ d.items() | list }} {{ d['items'] }} {{ d.get('q') }} {{ d.get('q', 4) }} {{ d['keys'] is defined }}", "{{ nope.x }}", "{{ nope['x'] }}", "{{ d.q.r }}", "{{ z.x }}", "{{ z['x'] }} {{ n.x }} {{ n[0] }}", "{{ nope[1:] }}", "{{ d[1:] }}", "{{ l['x'] }} {{ l.x }} {{ l['0'] }} {{ l[1.0] }}",
    "{{ m.0.role }} {{ d[[1]] }}", "{{ l.append(4) }}", "{{ l.append }}|{{ l.append is defined }}", "{{ d.update({}) }}", "{{ l[true] }} {{ (1, 2, 3)[1:] }} {{ range(9)[2] }}",
    # methods
    "{{ s.strip() }}|{{ s.lstrip() }}|{{ s.rstrip('\\n') }}|{{ 'xxaxx'.strip('x') }}", "{{ s.split() }} {{ 'a,b,,c'.split(',') }} {{ 'a,b,c'.split(',', 1) }} {{ 'a,b,c'.rsplit(',', 1) }} {{ ' a  b c '.split(none, 1) }} {{ ' a  b c '.rsplit(maxsplit=1) }} {{ ''.split(',') }} {{ ''.split() }}",
    "{{ 'abc'.startswith('a') }} {{ 'abc'.endswith(('x', 'c')) }} {{ 'abc'.startswith('b', 1) }} {{ 'aXbX'.replace('X', '-', 1) }} {{ 'ab'.replace('', '.') }}", "{{ 'hello wOrld'.title() }} {{ 'hELLO é'.capitalize() }} {{ 'Straße É'.lower() }} {{ 'élan'.upper() }} {{ \"it's\".title() }}",
    "{{ ','.join(['a', 'b']) }} {{ 'abcb'.find('b') }} {{ 'abcb'.rfind('b') }} {{ 'éab'.index('b') }} {{ 'aaa'.count('aa') }} {{ 'x'.find('y') }} {{ 'ababab'.count('ab', 1) }}", "{{ 'a\\nb\\r\\nc\\x0bd'.splitlines() }} {{ 'a\\n'.splitlines(true) }} {{ 'k=v=w'.partition('=') }} {{ 'k=v=w'.rpartition('=') }} {{ 'abc'.removeprefix('a') }} {{ 'abc'.removesuffix('c') }}",
    "{{ '12'.isdigit() }} {{ 'a1'.isalnum() }} {{ 'ab'.isalpha() }} {{ 'AB'.isupper() }} {{ ''.isdigit() }} {{ ' \\t'.isspace() }} {{ '7'.zfill(3) }} {{ '-7'.zfill(4) }}", "{{ '{} and {}'.format(1, 'x') }} {{ '{1}{0}'.format('a', 'b') }} {{ '{k}'.format(k=none) }} {{ '{{}}'.format() }}", "{{ l.count(1) }} {{ l.index(2) }} {{ (1, 1).count(1) }}",
    "{{ ','.join([1]) }}", "{{ 'a'.index('b') }}", "{{ 'a'.split('') }}", "{{ 'a'.nope() }}", "{{ s.strip(1) }}", "{{ d.get() }}", "{{ d.get([]) }}", "{{ n.strip() }}",
    # filters
    "{{ s | trim }}|{{ none | trim }}|{{ 'xax' | trim('x') }}|{{ nope | trim }}", "{{ l | length }} {{ 'ünï' | length }} {{ d | count }} {{ nope | length }} {{ range(4) | length }}", "{{ n | length }}", "{{ none | length }}", "{{ l | join(', ') }} {{ m | join('+', attribute='role') }} {{ 'abc' | join('-') }} {{ nope | join }} {{ [none, true, 1.0] | join(' ') }}",
    "{{ nope | default('x') }} {{ '' | default('x') }} {{ '' | d('x', true) }} {{ none | default('x') }} {{ none | default('x', boolean=true) }} {{ nope | default }}|", "{{ l | first }} {{ l | last }} {{ [] | first }} {{ 'abc' | last }} {{ d | first }} {{ d | last }} {{ nope | first }} {{ m | map(attribute='role') | first }}",
    "{{ d | tojson }} {{ d | tojson(indent=2) }} {{ 'ü\\x7f\\x01\"\\\\/🙂' | tojson }} {{ 'ü🙂\\x7f' | tojson(ensure_ascii=true) }} {{ [] | tojson(indent=1) }} {{ {'b': 1, 'a': 2} | tojson(sort_keys=true) }} {{ [1, {'a': []}] | tojson(separators=(',', ':')) }} {{ {1: none, none: 1, true: 2, 1.5: 3} | tojson }} {{ (1, 2) | tojson(indent='-') }}",
    "{{ [1.0, 1e20, 0.1, -0.0, 1e-7] | tojson }} {{ [[], {}, [[1]]] | tojson(indent=0) }}", "{{ nope | tojson }}", "{{ [nope] | tojson }}", "{{ d.items() | tojson }}", "{{ {(1, 2): 3} | tojson }}", "{{ m | map(attribute='n', default=0) | list }} {{ m | map(attribute='n') | list }} {{ ['a', 'B'] | map('upper') | list }} {{ [[1, 2], [3]] | map('join', '-') | list }} {{ m | map(attribute='content') | select | list }}",
    "{{ l | select('odd') | list }} {{ l | reject('eq', 1) | list }} {{ m | selectattr('role', 'equalto', 'user') | list | length }} {{ m | selectattr('n') | list }} {{ m | rejectattr('n', 'defined') | list | length }} {{ m | selectattr('role', 'in', ['user']) | map(attribute='content') | list }} {{ l | select('>', 1) | list }} {{ m | selectattr('content', 'none') | list | length }}",
    "{{ l | sort }} {{ l | sort(reverse=true) }} {{ ['b', 'A', 'a'] | sort }} {{ ['b', 'A'] | sort(case_sensitive=true) }} {{ m | sort(attribute='role') | map(attribute='role') | list }} {{ [[2, 'a'], [1, 'b']] | sort(attribute='1') }} {{ [[2, 1], [1, 1], [2, 0]] | sort(attribute='1,0') }}", "{{ [1, 'a'] | sort }}", "{{ l | unique | list }} {{ ['a', 'A', 'b'] | unique | list }} {{ m | unique(attribute='role') | list | length }}",
    "{{ l | reverse | list }} {{ 'abé' | reverse }} {{ d | dictsort }} {{ {'b': 1, 'A': 0} | dictsort }} {{ {'b': 1, 'A': 0} | dictsort(true) }} {{ {'b': 1, 'A': 0} | dictsort(by='value', reverse=true) }} {{ d | items | list }} {{ nope | items | list }}", "{{ 'x' | items | list }}",
    "{{ '42' | int }} {{ ' 4_2 ' | int }} {{ '3.9' | int }} {{ 'x' | int }} {{ 'x' | int(5) }} {{ none | int }} {{ 3.9 | int }} {{ -3.9 | int }} {{ true | int }} {{ '2.5' | float }} {{ 'x' | float }} {{ ' -.5e1 ' | float }} {{ 'inf' | float }} {{ 'nan' | int }} {{ [] | int }}", "{{ nope | int }}", "{{ 2.5 | round }} {{ 3.5 | round }} {{ 2.675 | round(2) }} {{ 42.55 | round(1, 'floor') }} {{ 42.51 | round(method='ceil') }} {{ 7 | round }} {{ -0.2 | round }} {{ -7 | abs }} {{ -7.5 | abs }} {{ 3 | round(1, 'ceil') }}",
    "{{ l | sum }} {{ m | selectattr('n') | sum(attribute='n') }} {{ [0.1, 0.2] | sum }} {{ [] | sum(start=3) }} {{ [[1], [2]] | sum(start=[]) }} {{ l | min }} {{ l | max }} {{ [] | max }} {{ ['b', 'A'] | min }} {{ m | max(attribute='role') }}", "{{ 'a\\nb\\n\\nc' | indent }}|{{ 'a\\nb' | indent(2, true) }}|{{ 'a\\n\\nb' | indent('>', blank=true) }}|{{ '' | indent(first=true) }}|", "{{ none | indent }}",
    "{{ 'hello world-wide (web)' | title }} {{ 'aBC' | capitalize }} {{ 'aé' | upper }} {{ 'AÉ' | lower }} {{ none | upper }} {{ 5 | string }} {{ 'a b_c d' | wordcount }} {{ 'aXX' | replace('X', 'y', 1) }} {{ 121 | replace(1, 3) }} {{ '%s-%s' | format(1, 'a') }}", "{{ l | batch(3) | list }} {{ l | batch(3, 0) | list }} {{ 'abc' | list }} {{ 3 | string | list }} {{ '<b>' | safe }}",
    "{% set x = '<b>' | safe %}{{ x }}{{ x ~ 'a<' }}{{ x == '<b>' }}{{ x in ['<b>'] }}{{ x is string }}{{ x is escaped }}{{ x is sequence }}{{ [x] }}{{ x | string }}{{ '<i>' | safe if t else n }}{{ [x, 'a<'] | join('-') }}{{ 'a<b' | safe | replace('<', '>') }}{{ '%s<' | format(x) }}{{ x | default('q') }}{{ n | safe }}{{ nope | safe }}{{ {'k': 1}['k' | safe] }}{{ {x: 1}['<b>'] }}{{ {x: 1} }}{{ d | tojson | safe }}{% if '' | safe %}y{% endif %}",
    "{% set g = l | map('string') %}{{ g | list }}{{ g | list }}", "{{ (l | map('string')) is iterable }} {{ (l | map('string')) is sequence }} {{ l | map('string') | length }}", "{{ l | map('nofilter') | list }}", "{{ l | select('notest') | list }}", "{{ l | map }}", "{{ none | map('upper') | list }} {{ '' | select | list }}", "{{ 5 | map('upper') | list }}", "{{ l | map('upper', 1) | list }}", "{{ l | trim(1) }}", "{{ [1, 'a', none] | map('string') | map('upper') | join('/') }}", "{{ 'x' | join(d=',') }}", "{{ l | join(sep=',') }}",
    # tests
    "{{ n is defined }} {{ nope is defined }} {{ nope is undefined }} {{ z is none }} {{ d is mapping }} {{ l is sequence }} {{ 'a' is sequence }} {{ d is iterable }} {{ n is iterable }} {{ 'a' is string }} {{ n is number }} {{ t is number }} {{ t is boolean }} {{ t is true }} {{ z is false }} {{ n is integer }} {{ t is integer }} {{ f is float }} {{ d.items() is sequence }} {{ nope is iterable }} {{ nope is sequence }}",
    "{{ 3 is odd }} {{ 4 is even }} {{ 9 is divisibleby 3 }} {{ 9 is divisibleby(2) }} {{ 'a' is eq 'a' }} {{ 1 is equalto 2 }} {{ 3 is gt 2 }} {{ 3 is lessthan 2 }} {{ 3 is ne 3 }} {{ 1 is in [1, 2] }} {{ 1 is not in [2] }} {{ 'A' is upper }} {{ 'a' is lower }} {{ none is sameas none }} {{ d.get is callable }} {{ 2 is ge 2 }} {{ n is not none }} {{ t is sameas true }}", "{{ 'a' is odd }}", "{{ 3.0 is odd }} {{ true is odd }}", "{{ n is defined and z is none or t }} {{ not z is defined }}", "{% if n is not defined %}a{% elif n is string %}b{% else %}c{% endif %}",
    # loops
    "{% for x in l %}{{ loop.index }}{{ loop.index0 }}{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}{{ loop.previtem }}{{ loop.nextitem }}{{ loop.cycle('a', 'b') }}{{ loop.depth }} {% endfor %}", "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}{% for k in d %}{{ k }}{% endfor %}{% for c in 'aé' %}<{{ c }}>{% endfor %}",
    "{% for x in [] %}a{% else %}b{% endfor %}{% for x in nope %}a{% else %}c{% endfor %}", "{% for x in l if x > 1 %}{{ x }}{{ loop.last }}{{ loop.length }}{% else %}none{% endfor %}", "{% for x in l %}{% if x == 2 %}{% break %}{% endif %}{{ x }}{% else %}E{% endfor %}", "{% for x in l %}{% continue %}{% else %}E{% endfor %}", "{% for x in l %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% else %}E{% endfor %}",
    "{% for x in [[1, [2, 3]], [4, [5, 6]]] %}{% for y in x[1] %}{{ loop.index }}{{ y }}{% endfor %}{{ loop.index }}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}", "{% for a, b in [(1, 2, 3)] %}{% endfor %}", "{% for a, b in [1] %}{% endfor %}", "{% for x in 5 %}{% endfor %}", "{% for x in none %}{% endfor %}", "{% set ns = namespace(go=true) %}{% for x in l if ns.go %}{{ x }}{% if x == 1 %}{% set ns.go = false %}{% endif %}{% endfor %}",
    "{% for x in l %}{% set outer = loop %}{% for y in 'ab' %}{{ outer.index }}{{ loop.index }} {% endfor %}{% endfor %}", "{% for k, v in d.items() if k != 'a' %}{{ loop.previtem }}{{ k }}{{ loop.nextitem }} {% endfor %}", "{% for x in l | map('string') %}{{ x }}{{ loop.last }}{{ loop.revindex }}{% endfor %}", "{% for x in range(3) %}{{ x }}{% endfor %}{{ x }}", "{% for x in range(100001) %}{% endfor %}", "{% for x in (1, 2) %}{{ loop.nope }}{{ x }}{% endfor %}",
    # names
    "{% set x = 1 %}{% for i in l %}{{ x }}{% set x = i %}{{ x }}{% endfor %}{{ x }}", "{% for i in l %}{{ z }}{{ n }}{% endfor %}{% set n = 1 %}{{ n }}", "{% if z %}{% set n = 1 %}{% endif %}{{ n }}", "{% if t %}{% set q = 1 %}{% endif %}{{ q }}", "{% for i in l %}{% if i == 1 %}{% set n = 9 %}{% endif %}{{ n }}{% endfor %}", "{{ n }}{% set n = 3 %}{{ n }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}{% set a, b = b, a %}{{ a }}{{ b }}", "{% set (a, b) = 'xy' %}{{ a }}{{ b }}",
    "{% set ns = namespace(a=1, b=[]) %}{% set ns.a = ns.a + 1 %}{% for x in l %}{% set ns.b = ns.b + [x] %}{% endfor %}{{ ns.a }}{{ ns.b }}{{ ns.q }}{{ ns['a'] }}{{ ns is mapping }}", "{% set d.x = 1 %}", "{% set ns = namespace() %}{% set ns._x = 1 %}", "{% set ns = namespace({'a': 1}, b=2) %}{{ ns.a + ns.b }}", "{% set x %}a{{ n }}b{% endset %}{{ x | upper }}", "{% set x | trim | upper %} q {% endset %}{{ x }}", "{% with a = 1, b = n %}{{ a }}{{ b }}{% set a = 2 %}{{ a }}{% endwith %}{{ a }}", "{% set x = 5 %}{% set x %}{{ x }}{% set x = 6 %}{{ x }}{% endset %}{{ x }}",
    "{% if t %}{% set n = none %}{% endif %}{% for i in 'a' %}{{ n }}{% endfor %}", "{% for i in 'ab' %}{{ y }}{% endfor %}{% set y = 1 %}", "{% for n in 'ab' %}{{ n }}{% endfor %}{{ n }}", "{% set loop = 1 %}{{ loop }}", "{% set dict_ = dict(a=1, **{'b': 2}) %}{{ dict_ }}{{ dict([('x', 1)]) }}", "{% print n, f %}", "{{ dict(l) }}", "{{ loop }}", "{{ caller }}",
    # macros and calls
    "{% macro f(a, b=2, c=a) %}{{ a }}{{ b }}{{ c }}{% endmacro %}{{ f(1) }} {{ f(1, 3) }} {{ f(b=5, a=4) }} {{ f() }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(1, 2) }}", "{% macro f(a) %}{{ a }}{% endmacro %}{{ f(q=2) }}", "{% macro f() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ f(1, x=2) }}{{ f() }}", "{% macro f(x) %}{{ x }}{% if x > 0 %}{{ f(x - 1) }}{% endif %}{% endmacro %}{{ f(3) }}", "{% macro f() %}[{{ caller() }}]{% endmacro %}{% call f() %}x{{ n }}{% endcall %}",
    "{% macro f() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b=7) f() %}{{ a }}{{ b }}{% endcall %}", "{% macro f() %}{{ n }}{{ late }}{% endmacro %}{% set late = 'L' %}{{ f() }}", "{% macro f() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ f() }}{{ n }}", "{{ f() }}{% macro f() %}{% endmacro %}", "{% macro f() %}{{ caller() }}{% endmacro %}{{ f() }}", "{% macro f() %}x{% endmacro %}{% call f() %}y{% endcall %}", "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}a{% endfilter %}",
    "{% macro f(a) %}{{ a }}{% endmacro %}{% set g = f %}{{ g('x') }}{{ f is callable }}{{ f.name }}", "{% macro f(a, a) %}{% endmacro %}", "{% macro f(a=1, b) %}{% endmacro %}", "{% for x in 'ab' %}{{ f(x) }}{% endfor %}{% macro f(x) %}{{ x }}{% endmacro %}", "{% macro f(n) %}{{ n }}{% endmacro %}{{ f() }}|{{ f(none) }}", "{{ raise_exception('no: ' ~ n) }}", "{% if z %}{{ raise_exception('no') }}{% endif %}ok", "{{ strftime_now('%d %b %Y %H:%M:%S %A %j %B %y %m %p %I %-d %%') }}", "{% macro f(l) %}{% for x in l %}{{ x }}{% if not loop.last %},{% endif %}{% endfor %}{% endmacro %}{{ f([1, 2]) }}{{ f('ab') }}",
    "{{ range(1, 2, 0) }}", "{{ n() }}", "{{ nope() }}", "{{ 'a'.upper }}", "{{ f(*[1], **{'b': 2}) }}{% macro f(a, b) %}{% endmacro %}", "{% macro f(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ f(*[1], **{'b': 2}) }}{{ f(*'xy') }}", "{{ range(*[1, 3]) | list }}",
    # broken ones
    "{% if %}{% endif %}", "{% for x of l %}{% endfor %}", "{{ 1 + }}", "{{ (1 }}", "{{ 1 ] }}", "{% endif %}", "{% if t %}", "{{ n", "{# x", "{% raw %}x", "{{ 'a }}", "{% nothing %}", "{{ n | nofilter }}", "{{ n is notest }}", "{{ n ! 2 }}", "{% set 1 = 2 %}", "{% set x + 1 %}{% endset %}", "{% break %}", "{{ f(a=1, 2) }}", "{% for loop in l %}{% endfor %}", "{{ a b }}", "{% else %}", "{{ n is is defined }}", "{{ d. }}", "{{ l[] }}", "{{ }}", "{% %}", "{{ '\\xZ' }}", "{{ {1} }}", "{{ [1, , 2] }}",
]


# Jinja renders these, and Troupe refuses them by name.
REFUSED = {"{{ l[] }}", "{{ self }}", "{{ cycler('a') }}", "{{ 's' | e }}", "{% for x in l recursive %}{% endfor %}", "{% for x in l %}{% macro f() %}{% endmacro %}{% endfor %}",
           "{{ 'a' + ('b' | safe) }}", "{{ ('b' | safe) + 'a<' }}", "{{ 'b' | safe | upper }}", "{{ ('b' | safe)[0] }}", "{{ ('b' | safe).strip() }}", "{{ ('b' | safe) * 2 }}", "{{ 'b' | safe | string | trim }}", "{{ 0x1f }}", "{{ 9223372036854775808 }}", "{{ 9223372036854775807 + 1 }}", "{{ 2 ** 64 }}", "{{ 'ß' | upper }}", "{{ 'ΑΣ'.lower() }}",
           "{{ 'a'.center(5) }}", "{{ '{:>4}'.format(1) }}", "{{ n.real }}", "{{ '\\N{BULLET}' }}", "{% for x in l %}{{ loop.changed(x) }}{% endfor %}", "{{ s | truncate(3) }}",
           "{% macro f() %}{% generation %}x{% endgeneration %}{% endmacro %}{{ f() }}", "{% block x %}{% endblock %}", "{{ strftime_now('%c') }}", "{{ '99999999999999999999' | int }}",
           "{{ d.__class__ }}", "{{ '٣' | int }}", "{{ 'é'.isalpha() }}", "{% set ns = namespace() %}{{ ns }}", "{{ range }}", "{% autoescape true %}{% endautoescape %}"}


def language_fixture():
    rows = []
    for source in LANGUAGE + sorted(REFUSED):
        try:
            text = chat_template_utils._compile_jinja_template(source).render(**json.loads(json.dumps(M)))
            is_refused = source in REFUSED or " at 0x" in text  # the text of a function names its address
            rows.append({"source": source} if is_refused else {"source": source, "text": text})
        except Exception as failed:
            assert source not in REFUSED, (source, failed)
            rows.append({"source": source})
    return {"clock": CLOCK, "variables": M, "rows": rows}


if __name__ == "__main__":
    if sys.argv[1:2] == ["show"]:
        variables = json.loads((OUT / "chat_templates.json").read_text())["variables"][int(sys.argv[3])]
        print(json.dumps(variables, indent=1, ensure_ascii=False))
        print(rendered((OUT / "chat_templates" / f"{sys.argv[2]}.jinja").read_text(), variables))
        sys.exit()
    for name, made in (("chat_templates", chat_fixture()), ("chat_language", language_fixture())):
        (OUT / f"{name}.json").write_text(json.dumps(made, ensure_ascii=True, separators=(",", ":")).replace('},{"source"', '},\n{"source"') + "\n")
