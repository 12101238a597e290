"""Small templates, one language feature each, for templates.py.  VARIABLES is what they can name."""

VARIABLES = {
    "s": "Hello, World", "u": "Grüße 🙂 ok", "n": 7, "f": 2.5, "t": True, "z": None,
    "empty": "", "xs": [3, 1, 2], "names": ["b", "A", "c", "a"],
    "d": {"b": 1, "a": {"x": [1, 2, {"y": "z"}]}, "items": 5},
    "rows": [{"name": "Bob", "age": 30}, {"name": "al", "age": 25}, {"name": "Cy"}],
    "lines": "one\ntwo\n\nthree", "html": "<a href=\"x\">'&'</a>", "tiny": 1e-7, "huge": 1e22,
    "mixed": [1, "1", 1.0, True, None, "a"],
}

_EXPRESSIONS = r"""
1
-1
1 + 2 * 3
7 // 2
-7 // 2
7 % 3
-7 % 3
7 % -3
7.5 // 2
-7.5 % 2
7 / 2
6 / 3
2 ** 10
2 ** -1
2 ** 3 ** 2
-2 ** 2
1.0
1e16
1e15
123456789012345680.0
0.1 + 0.2
1e-5
0.0001
1.5e300 * 1e10
-0.0
3 - 5
10 / 4
1_000
0x1f
0b101
0o17
1 / 0
1 // 0
1 % 0
1.0 / 0
9223372036854775807
true
True
none
None
false + 1
true + true
'a' + 'b'
'a' ~ 1 ~ none ~ true ~ 1.5
'a' + 1
1 + 'a'
'ab' * 3
3 * 'ab'
[1] * 2
[1] + [2, 3]
(1, 2) + (3,)
[1] + (2,)
'%s-%d' % ('x', 5)
'%s' % 'x'
'%d%%' % 3.7
'%.2f' % 2.345
'%(a)s!' % {'a': 1}
'%s %s' % 'x'
'%s' % ('x', 'y')
'%s' % [1, 'b']
1 < 2
1 < 2 < 3
1 < 2 > 3
1 == 1.0
1 == true
'a' == 1
'a' < 'b'
'a' < 1
[1, 2] < [1, 3]
[1, 'a'] == [1, 'a']
{'a': 1} == {'a': 1.0}
none == none
none < 1
1 != 2
'ell' in s
'x' not in s
1 in xs
'1' in mixed
'a' in d
'items' in d
1 in 'a'
1 in none
1 in undefinedthing
not 1
not ''
not not xs
1 and 2
0 and 2
0 or 'x'
'' or none
1 if true else 2
1 if false else 2
1 if false
(1 if false) is defined
1 if 0 else 2 if 0 else 3
s[0]
s[-1]
s[100]
s[1:4]
s[:-2]
s[::-1]
s[::2]
s[10:2:-3]
s[-3:]
s[5:1]
u[4]
u[6]
u[::-1]
u[2:7]
u | length
xs[0]
xs[-1]
xs[5]
xs['0']
xs[1:]
xs[::-1]
xs[:1] + xs[2:]
xs[none:2]
xs['a':]
z[1:]
d[1:]
d['b']
d.b
d.a.x[2].y
d['a']['x'][2]['y']
d.items
d['items']
d.nothing
d.nothing.more
d['nothing']
d['nothing']['more']
undefinedthing
undefinedthing.x
undefinedthing['x']
undefinedthing + 1
undefinedthing()
undefinedthing == undefinedthing
undefinedthing == none
undefinedthing ~ 'x'
undefinedthing | length
undefinedthing | upper
undefinedthing | list
undefinedthing | default('d')
undefinedthing | default
none | default('d')
'' | default('d')
'' | default('d', true)
none | default('d', boolean=true)
xs
(1, 2)
(1,)
()
{'a': 1, 'b': [none, true, 1.5, 'q']}
['it\'s', "q\"", 'both\'"', 'tab\t', 'nl\n', 'back\\slash', 'é', '\u200b', '\x7f']
[undefinedthing]
['a', ('b',), {}]
d
d.keys()
d.values()
d.items()
d.keys() | list
d.items() | list
d.get('b')
d.get('q')
d.get('q', 'w')
d.get('b', 2)
d.get()
d.pop('b')
d.pop
d.pop is defined
xs.append(1)
d.update({})
xs.index(2)
xs.count(2)
xs.index(9)
d.items is defined
d.items is callable
d.items is mapping
s.upper()
s.lower()
s.title()
'hello wORLD'.capitalize()
'x'.nothing
'x'.nothing()
u.upper()
'ß'.upper()
'ŉx ﬁ'.upper()
'İI'.lower()
'ÀÉ'.lower()
s.startswith('He')
s.startswith(('x', 'He'))
s.endswith('ld')
s.endswith('')
s.replace('l', 'L')
s.replace('l', 'L', 1)
s.replace('', '-')
s.replace('', '-', 3)
'aaa'.replace('aa', 'b')
s.split(', ')
s.split()
' a  b c '.split()
' a  b c '.split(none, 1)
'a,b,c'.split(',', 1)
'a,b,c'.split(',', maxsplit=1)
'a,b,,c'.split(',')
''.split(',')
''.split()
'a'.split('')
'a,b,c'.rsplit(',', 1)
'a b'.rsplit()
'a\u00a0b\u2003c'.split()
lines.splitlines()
'a\r\nb\rc\x0bd\u2028e'.splitlines()
'a\nb\n'.splitlines(true)
'  x '.strip()
'  x '.lstrip() ~ '|'
'  x '.rstrip() ~ '|'
'xxaxx'.strip('x')
'xyaxy'.lstrip('yx')
'éxé'.strip('é')
'\u3000x\u2028'.strip()
'x'.strip(none)
'x'.strip(1)
s.find('o')
s.rfind('o')
s.find('q')
u.find('🙂')
s.index('q')
s.count('l')
'aaa'.count('')
', '.join(names)
'-'.join('abc')
','.join([1])
'a'.ljust(3) ~ '|'
'a'.rjust(3, '*')
'a'.center(4, '.')
'ab'.center(5, '.')
'a-b-c'.partition('-')
'a-b-c'.rpartition('-')
'abc'.partition('-')
'abc'.rpartition('-')
'prefix'.removeprefix('pre')
'suffix'.removesuffix('fix')
'12'.isdigit()
''.isdigit()
'1a'.isalnum()
'é'.isalpha()
' \t'.isspace()
'AB'.isupper()
'aB'.islower()
'{} {}'.format(1, 'b')
'{1} {0}'.format(1, 'b')
'{a}{{}}'.format(a=none)
'{} {}'.format(1)
'{0} {}'.format(1, 2)
xs | length
d | length
5 | length
none | length
xs | first
xs | last
[] | first
([] | first) is defined
xs | sort
xs | sort(reverse=true)
xs | sort(reverse=1)
xs | sort(reverse=none)
xs | sort('x')
d | dictsort(reverse=d)
'a\nb'.splitlines('x')
names | sort
names | sort(case_sensitive=true)
rows | sort(attribute='name') | map(attribute='name') | list
rows[:2] | sort(attribute='age,name') | map(attribute='age') | list
mixed | sort
xs | sum
rows[:2] | sum(attribute='age')
[] | sum
xs | min
xs | max
names | min
[] | max
xs | reverse | list
s | reverse
xs | join
xs | join(', ')
rows | join('-', attribute='name')
[none, 1.5, undefinedthing] | join('|')
names | map('upper') | list
names | map('upper')
rows | map(attribute='age') | list
rows | map(attribute='age', default=0) | list
[[1, 2], [3]] | map(attribute=0) | list
[[1, 2], [3]] | map('length') | list
[{'a': {'b': [5]}}] | map(attribute='a.b.0') | list
none | map('upper') | list
xs | select('odd') | list
xs | select('greaterthan', 1) | list
xs | reject('eq', 1) | list
mixed | select | list
mixed | reject | list
mixed | select('string') | list
rows | selectattr('age') | map(attribute='name') | list
rows | selectattr('age', 'gt', 26) | list
rows | selectattr('age', 'defined') | map(attribute='name') | join(',')
rows | rejectattr('name', 'equalto', 'al') | list | length
rows | rejectattr('age') | list
names | unique | list
names | unique(case_sensitive=true) | list
mixed | unique | list
xs | batch(2) | list
xs | batch(2, 0) | list
d | dictsort
{'B': 2, 'a': 1} | dictsort
{'B': 2, 'a': 1} | dictsort(true)
{'B': 2, 'a': 1} | dictsort(by='value', reverse=true)
d | items | list
undefinedthing | items | list
5 | items | list
'abc' | list
d | list
5 | list
s | upper
5 | upper
s | lower
'hello world' | title
'(foo) [bar-baz]' | title
'hELLO' | capitalize
'  x ' | trim
'xxyxx' | trim('x')
5 | trim
s | replace('l', 'L')
s | replace('l', 'L', 2)
5 | replace(5, 6)
lines | indent
lines | indent(2, true)
lines | indent(2, blank=true)
lines | indent('> ')
'' | indent
5 | indent
'%s=%s' | format('a', 1)
'%(x)s' | format(x=2)
'12' | int
' -12 ' | int
'1_000' | int
'1.9' | int
'x' | int
'x' | int(5)
'x' | int(default=-1)
'' | int
none | int
2.9 | int
true | int
[] | int(3)
undefinedthing | int
'1e3' | float
'x' | float
' 2.5 ' | float
'inf' | float
'nan' | float
7 | float
2.5 | round
3.5 | round
2.345 | round(2)
2.1 | round(method='ceil')
2.9 | round(0, 'floor')
7 | round
-3 | abs
-3.5 | abs
'a' | abs
5 | string + 'x'
none | string
html | e
html | escape
html | safe
'<b>' | safe + '<i>'
'<i>' + ('<b>' | safe)
('<b>' | safe) ~ '<i>'
('<b>' | safe).strip('<') + '&'
('<b>' | safe) | e
xs | tojson
d | tojson
d | tojson(indent=2)
d | tojson(2)
[] | tojson(indent=2)
{'a': {}, 'b': []} | tojson(indent=4)
d | tojson(sort_keys=true)
d | tojson(separators=(',', ':'))
u | tojson
u | tojson(ensure_ascii=true)
u | tojson(true)
html | tojson
'\x00\x1f\x7f\u2028"\\/\b\f\n\r\t' | tojson
'\x7f' | tojson(ensure_ascii=true)
[1, 1.0, 1e100, true, none] | tojson
[tiny, huge, 1e16, 123456.789] | tojson
{1: 2, none: 3, true: 4, 1.5: 5} | tojson
(1, 2) | tojson
undefinedthing | tojson
(xs | map('string')) | tojson
d | tojson(indent='\t')
1 is defined
undefinedthing is defined
undefinedthing is undefined
d.q is defined
d.q is not defined
z is none
1 is not none
s is string
1 is string
d is mapping
xs is mapping
xs is iterable
s is iterable
5 is iterable
undefinedthing is iterable
xs is sequence
d is sequence
s is sequence
5 is sequence
undefinedthing is sequence
d.items() is sequence
1 is number
true is number
'1' is number
1 is integer
true is integer
1.0 is float
true is boolean
1 is boolean
true is true
1 is true
false is false
0 is false
3 is odd
4 is even
9 is divisibleby 3
9 is divisibleby(2)
'abc' is lower
'ABC' is upper
'abc' is upper
1 is eq 1
1 is equalto(2)
1 is ne 2
1 is lt 2
2 is ge 2
1 is in xs
5 is in(xs)
1 is sameas 1.5
none is sameas none
range is callable
s is callable
undefinedthing is callable
not 1 is none
1 is not string and 2 is number
range(3) | list
range(1, 4) | list
range(5, 0, -2) | list
range(0)
range(3)
range(1, 1) | list
range(100001)
range(1, 2, 0)
range('a')
range(3)[1]
range(3)[-1]
2 in range(3)
range(10) | length
dict(a=1, b=2)
dict({'x': 1}, y=2)
dict([('a', 1), ['b', 2]])
namespace(a=1).a
namespace({'x': 3}).x
namespace(a=1)['a']
namespace(a=1).b
namespace(a=1).b is defined
raise_exception('no')
strftime_now('%d %b %Y')
strftime_now('%Y-%m-%d %H:%M:%S %A %B %j %y %p %I %%')
strftime_now('%-d/%-m')
'a' 'b'
"\x41\u00e9\U0001F642\101\n\t\\\'\"\q"
'line\
joined'
'\é\🙂'
'\x4'
'nul\0byte'
[1, 2,]
{'a': 1,}
{'a': 1, 'a': 2}
{[1]: 2}
{1: 'a', 1.0: 'b', true: 'c'}
(((1)))
[[1, [2]], {'k': [3]}]
s|length > 5 and s is string
- 5 | abs
-xs
+true
-true
~1
1 +
(1
1)
[1
{'a'}
a b
'unclosed
1 = 2
x.
x[
x |
1 is
f(a=1, 2)
f(a=1, a=2)
[x for x in xs]
d['__class__']
xs[true]
xs[1.0]
s['upper']()
d['get']('b')
[d, d] == [d, d]
s.upper
'a' 'b' ~ 'c' 'd'
5.0
xs.0
(xs | first) + (xs | last)
messages
tools
documents
bos_token ~ eos_token
add_generation_prompt
'x' if undefinedthing is defined else 'y'
"" is string
loop
caller
varargs
"""

_TEMPLATES = [
    "a\n", "a\n\n", "\n", "", "a\r\nb\rc", "{{ 1 }}\n", "{{ 1 }}\n\n{{ 2 }}",
    "  {% if t %}x{% endif %}  ", "  {%- if t -%}  x  {%- endif -%}  y",
    "  {%+ if t %}x{%+ endif %}\n z", "a\n  {% if t %}\n  b\n  {% endif %}\n  c",
    "a {% if t %}\n b {% endif %}\n c", "{% if t +%}\n x{% endif +%}\n y",
    "x  {{- 1 -}}  y", "x\n\n {{- 1 }}\n\n y", "x {{+ 1 }} y",
    "a{# c #}b", "a\n  {# c #}\n b", "a {#- c -#} b", "a {#+ c +#}\n b", "{# {{ x }} {% y %} #}z",
    "{# a # b } #}c", "{#-#}x", "{% raw %}{{ x }}{% y %}{% endraw %}z",
    "a\n  {% raw %}\n  {{ x }}\n  {% endraw %}\n b", "{%- raw -%}  x  {%- endraw -%}  y",
    "{% raw %}x", "{% raw %}{% endraw x %}{% endraw %}", "{%raw%}{{{%endraw%}",
    "{{ '}}' }}", "{{ '%}' }}", "{% if '%}' %}x{% endif %}", "{{ {'a': {'b': 1}}}}",
    "{{ [1, {'a': 2}][1]['a'] }}", "{ {", "{{", "{{ }}", "{% %}", "{{ 1", "{% if t %}", "%} }} #}",
    "{{ 1 }", "a\u2028\u00a0{%- if t %}x{% endif %}", "{%if t%}x{%endif%}", "{% if t: %}x{% endif %}",
    "{% if 0 %}a{% elif 1 %}b{% else %}c{% endif %}", "{% if 0 %}a{% elif 0 %}b{% else %}c{% endif %}",
    "{% if 0 %}a{% endif %}b", "{% else %}", "{% if 1 %}{% else %}{% else %}{% endif %}",
    "{% for x in xs %}{{ x }},{% endfor %}", "{% for x in [] %}a{% else %}b{% endfor %}",
    "{% for x in xs %}{{ loop.index }}{{ loop.index0 }}{{ loop.first }}{{ loop.last }}{{ loop.length }}"
    "{{ loop.revindex }}{{ loop.revindex0 }}{{ loop.depth }}{{ loop.depth0 }};{% endfor %}",
    "{% for x in xs %}{{ loop.previtem }}<{{ x }}<{{ loop.nextitem }};{% endfor %}",
    "{% for x in xs %}{{ loop.previtem is defined }}{{ loop.nextitem is defined }};{% endfor %}",
    "{% for x in xs %}{{ loop.cycle('a', 'b') }}{% endfor %}",
    "{% for x in [1, 1, 2] %}{{ loop.changed(x) }}{% endfor %}",
    "{% for k, v in d.items() %}{{ k }}={{ v }};{% endfor %}", "{% for k in d %}{{ k }}{% endfor %}",
    "{% for k, v in xs %}{% endfor %}", "{% for a, (b, c) in [(1, (2, 3))] %}{{ a }}{{ b }}{{ c }}{% endfor %}",
    "{% for x in xs if x > 1 %}{{ x }}{{ loop.index }}{{ loop.length }}{{ loop.last }}{% endfor %}",
    "{% for x in xs if x > 9 %}a{% else %}none{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in xs if not ns.stop %}{{ x }}{% set ns.stop = true %}{% endfor %}",
    "{% set ns = namespace(stop=false) %}{% for x in xs if not ns.stop %}{{ x }}{{ loop.last }}{% set ns.stop = true %}{% endfor %}",
    "{% for k, v in d.items() if v is mapping %}{{ k }}{{ loop.previtem is defined }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% continue %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% if x == 1 %}{% break %}{% endif %}{{ x }}{% endfor %}",
    "{% for x in xs %}{% break %}{% else %}e{% endfor %}", "{% for x in xs %}{% continue %}{% else %}e{% endfor %}",
    "{% for x in xs %}{% if x == 3 %}{% continue %}{% endif %}{% else %}e{% endfor %}", "{% break %}",
    "{% for x in xs %}{% set y %}{% break %}{% endset %}{{ y }}{% endfor %}z",
    "{% for x in xs %}{% macro m() %}{% break %}{% endmacro %}{% endfor %}",
    "{% for x in 5 %}{% endfor %}", "{% for x in undefinedthing %}a{% endfor %}b", "{% for x in none %}{% endfor %}",
    "{% for x in 'héy' %}{{ x }}.{% endfor %}", "{% for x in xs %}{% endfor %}{{ x }}",
    "{% set x = 9 %}{% for x in xs %}{{ x }}{% endfor %}{{ x }}",
    "{% set x = 0 %}{% for y in xs %}{% set x = x + y %}{{ x }}{% endfor %}{{ x }}",
    "{% for y in xs %}{{ n }}{% set n = y %}{{ n }}{% endfor %}{{ n }}",
    "{% if t %}{% set q = 1 %}{% endif %}{{ q }}", "{% if not t %}{% set n = 1 %}{% endif %}{{ n }}",
    "{% if t %}{% set n = 1 %}{% else %}{% set n = 2 %}{% endif %}{{ n }}",
    "{% for y in xs %}{% if y == 1 %}{% set n = y %}{% endif %}{{ n }}{% endfor %}",
    "{{ n }}{% set n = 1 %}{{ n }}", "{% set n = n + 1 %}{{ n }}", "{% set a, b = 1, 2 %}{{ a }}{{ b }}",
    "{% set a, b = [1, 2, 3] %}", "{% set a, b = 'xy' %}{{ b }}{{ a }}", "{% set (a, b) = (1, 2) %}{{ b }}",
    "{% set a = 1, 2 %}{{ a }}", "{% set x %}a{{ n }}b{% endset %}{{ x }}{{ x is string }}",
    "{% set x | upper %}abc{% endset %}{{ x }}", "{{ n }}{% set x | replace('a', n) | upper %}abc{% endset %}{{ x }}",
    "{% set x %}{% set y = 1 %}{{ y }}{% endset %}{{ x }}{{ y }}", "{% set none = 1 %}", "{% set 1 = 1 %}",
    "{% set x.y = 1 %}", "{% set d.y = 1 %}", "{% set ns = namespace() %}{% set ns.a = 1 %}{{ ns.a }}",
    "{% set ns = namespace(a=1) %}{% for x in xs %}{% set ns.a = ns.a + x %}{% endfor %}{{ ns.a }}",
    "{% set ns = namespace(x=[]) %}{% for x in xs %}{% set ns.x = ns.x + [x] %}{% endfor %}{{ ns.x }}",
    "{% set ns = namespace(a=1) %}{% set ns.a, ns.b = 2, 3 %}{{ ns.a }}{{ ns.b }}",
    "{% set ns = namespace(a=1) %}{{ 'a' in ns }}", "{% set ns = namespace(_a=1) %}{{ ns._a }}|",
    "{% set ns = namespace() %}{{ ns is mapping }}{{ ns is iterable }}{{ ns is defined }}{{ not ns }}",
    "{% macro m(a, b=2) %}[{{ a }}{{ b }}]{% endmacro %}{{ m(1) }}{{ m(1, 3) }}{{ m(b=4, a=5) }}{{ m() }}",
    "{% macro m(a, b=a) %}{{ a }}{{ b }}{% endmacro %}{{ m(1) }}", "{% macro m(a) %}{% endmacro %}{{ m(1, 2) }}",
    "{% macro m(a) %}{% endmacro %}{{ m(b=1) }}", "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(1, a=2) }}",
    "{% macro m() %}{{ varargs }}{{ kwargs }}{% endmacro %}{{ m(1, 2, x=3) }}", "{% macro m(a, a) %}{% endmacro %}",
    "{% macro m(a=1, b) %}{% endmacro %}", "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}",
    "{% macro m() %}{{ q }}{% endmacro %}{{ m() }}{% set q = 1 %}{{ m() }}",
    "{% macro m() %}{{ n }}{% endmacro %}{{ m() }}{% set n = 1 %}{{ m() }}",
    "{{ n }}{% macro m() %}{{ n }}{% endmacro %}{% set n = 1 %}{{ m() }}",
    "{% macro m(x) %}{% if x > 0 %}{{ x }}{{ m(x - 1) }}{% endif %}{% endmacro %}{{ m(4) }}",
    "{% macro m() %}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}{{ n }}", "{{ m() }}{% macro m() %}x{% endmacro %}",
    "{% macro m() %}{{ n }}{% set n = 1 %}{{ n }}{% endmacro %}{{ m() }}",
    "{% for x in xs %}{% macro m() %}{{ x }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% for x in xs %}{% macro m() %}{{ loop.index }}{% endmacro %}{{ m() }}{% endfor %}",
    "{% macro m() %}a{{ caller() }}b{% endmacro %}{% call m() %}x{% endcall %}",
    "{% macro m() %}{{ caller(1, 2) }}{% endmacro %}{% call(a, b=3) m() %}{{ a }}{{ b }}{{ n }}{% endcall %}",
    "{% macro m() %}{{ caller is defined }}{% endmacro %}{{ m() }}{% call m() %}{% endcall %}",
    "{% macro m() %}{{ caller() }}{% endmacro %}{{ m() }}", "{% macro m() %}x{% endmacro %}{% call m() %}{% endcall %}",
    "{% call 5 %}{% endcall %}", "{% call undefinedthing() %}{% endcall %}",
    "{% macro o() %}<{{ caller() }}>{% endmacro %}{% macro i() %}({{ caller() }}){% endmacro %}"
    "{% call o() %}{% call i() %}x{% endcall %}{% endcall %}",
    "{% macro m(a) %}{{ a }}{% endmacro %}{{ m(*[1]) }}{{ m(**{'a': 2}) }}",
    "{% macro m(a, b) %}{{ a }}{{ b }}{% endmacro %}{{ m(*[1], **{'b': 2}) }}",
    "{% macro m() %} x {% endmacro %}{{ m() | trim }}{{ m() | length }}{{ m() == ' x ' }}",
    "{% macro m() %}x{% endmacro %}{{ m is callable }}{{ m is defined }}{{ m is string }}",
    "{% filter upper %}a{{ s }}{% endfilter %}", "{% filter replace('a', 'b') | upper %}aXa{% endfilter %}",
    "{% filter indent(2) %}a\nb\n{% endfilter %}", "{% filter upper %}{% set q = 1 %}{% endfilter %}{{ q }}",
    "{% with a = 1, b = n %}{{ a }}{{ b }}{% endwith %}{{ a }}", "{% with %}{% set q = 1 %}{{ q }}{% endwith %}{{ q }}",
    "{% with a = 1, b = a %}{{ b }}{% endwith %}|", "{% with n = n + 1 %}{{ n }}{% endwith %}{{ n }}",
    "{% print 1, 2 %}", "{% print %}", "{% generation %}{{ n }}{% set q = 1 %}{% endgeneration %}{{ q }}",
    "{% for x in xs recursive %}{{ x }}{% endfor %}",
    "{% for x in [[1, [2, []]], [3, []]] recursive %}{{ x[0] }}{{ loop.depth }}{% if x[1] %}({{ loop([x[1]]) }}){% endif %}{% endfor %}",
    "{% for x in xs %}{{ loop([1]) }}{% endfor %}", "{% for x in [1, 2] %}{% for y in [3, 4] %}{{ loop.index }}{% endfor %}{{ loop.index }}{% endfor %}",
    "{% for x in [1, 2] %}{% set o = loop %}{% for y in [3, 4] %}{{ o.index }}{{ loop.index }} {% endfor %}{% endfor %}",
    "{% for x in [1, 2] %}{% for y in [loop.index] %}{{ y }}{% endfor %}{% endfor %}",
    "{% for loop in xs %}{% endfor %}", "{% for x in xs %}{% set loop = 1 %}{% endfor %}",
    "{% for x in xs %}{{ loop }}{% endfor %}", "{% for x in xs %}{% if loop %}y{% endif %}{% endfor %}",
    "{% set g = xs | map('string') %}{{ g | list }}{{ g | list }}", "{% set g = d | items %}{{ g | list | length }}{{ g | list }}",
    "{% set g = ['1', none] | map('upper') %}{% for x in g %}{{ x }}{% endfor %}",
    "{% for x in ['a', 5] | map('length') %}{{ x }}{% break %}{% endfor %}", "{{ (['a', 5] | map('length')) | first }}",
    "{% set r = xs | reverse %}{{ r | list }}{{ r | list }}", "{% for x in xs | reverse %}{{ loop.length }}{{ x }}{% endfor %}",
    "{% for x in xs %}{% for y in xs %}{% if y == 1 %}{% break %}{% endif %}{{ x }}{{ y }} {% endfor %}{% endfor %}",
    "{% include 'x' %}", "{% import 'x' as y %}", "{% extends 'x' %}", "{% nonsense %}", "{% do 1 %}", "{% endif %}",
    "{{ x | nonsense }}", "{{ x is nonsense }}", "{% if x is nonsense %}{% endif %}",
    "{% set content = 'a</think>b' %}{{ content.split('</think>')[-1].lstrip('\\n') }}",
    "{%- set a = 1 -%}\n\n{%- set b = 2 -%}\n{{ a + b }}", "{{- 'x' -}}\n  y", "\u00e9{{ '\u00e9' }}",
    "{% for m in [{'role': 'user', 'content': None}] %}{{ m.role + ': ' + (m.content or '') }}{% endfor %}",
    "{{ 'a' if n > 5 else 'b' ~ 'c' }}", "{% set x = 'a' if n > 50 else none %}{{ x is none }}",
    "{{ {'a': 1}['a'] if 'a' in {'a': 1} }}", "{{ s|default('x', true)|upper|replace('O', '0') }}",
    "{% set f = 'x' %}{% macro f() %}y{% endmacro %}{{ f() }}", "{% macro f() %}y{% endmacro %}{% set f = 'x' %}{{ f() }}",
    "{% if xs %}{% for x in xs %}{% if loop.first %}{% set first = x %}{% endif %}{{ first }}{% endfor %}{% endif %}{{ first }}",
    "{% set x = 1 %}{% macro m() %}{{ x }}{% for i in [1] %}{% set x = 2 %}{{ x }}{% endfor %}{{ x }}{% endmacro %}{{ m() }}",
    "{% for i in [1, 2] %}{{ v }}{% set v = i %}{% endfor %}", "{% for i in [1, 2] %}{% if v is defined %}d{% endif %}{% set v = i %}{% endfor %}",
    "{% macro m(x=n) %}{{ x }}{% endmacro %}{% set n = 3 %}{{ m() }}", "{% macro m(caller) %}{% endmacro %}{{ m(1) }}",
    "{% macro m(kwargs) %}{{ kwargs }}{% endmacro %}{{ m(1) }}",
    "{% call(x) m() %}{{ x }}{% endcall %}{% macro m() %}{% endmacro %}", "{{ range(3) | map('string') | join('-') }}",
    "{% set a = [1, [2]] %}{% set b = a %}{{ a == b }}{{ a[1] is sameas b[1] }}", "{{ 1 }}{{ 2 }}\n{{ 3 }}\n",
    "a\n\n{% if t %}\n\nb\n\n{% endif %}\n\nc\n\n", "\t{% if t %}\n\tx\n\t{% endif %}\n", "x{% if t %} {% endif %}y\n \n",
    "{%-\n if t\n-%}\n x\n{%-\nendif\n-%}", "{{\n1\n+\n1\n}}", "{{ 'a\nb' }}", "{{ 'a\r\nb' }}",
    "{% set ns = namespace(n=0) %}{% macro inc() %}{% set ns.n = ns.n + 1 %}{% endmacro %}{{ inc() }}{{ inc() }}{{ ns.n }}",
    "{{ d | tojson }}|{{ d | tojson | length }}|{{ (d | tojson) is string }}", "{% for x in d | dictsort %}{{ x[0] }}{% endfor %}",
    "{% set y %}{% for x in xs %}{{ x }}{% endfor %}{% endset %}{{ y }}", "{{ xs | sort | first }}{{ xs | sort | last }}",
    "{%- for c in 'ab' -%}\n  {{- c }}\n  {%- if not loop.last -%}, {% endif -%}\n{%- endfor %}",
]

FEATURES = ["{{ %s }}" % line for line in _EXPRESSIONS.strip("\n").split("\n")
            if "joined" not in line and not line.endswith("\\")] + _TEMPLATES
