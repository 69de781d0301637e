"""Chat templates that are chosen by name: well known public formats, written down for training.

Each says with `{% generation %}` what the assistant writes: its content and the mark that ends its
turn. Contents are given as they are. A chat that the format has no place for (a role, tools, an
order of turns) is refused, never bent.
"""

from typing import Final

CHATML: Final = "chatml"  # made by render.py, byte for byte, without a template

_NO_TOOLS: Final = (
    "{%- if tools %}{{ raise_exception('this format has no place for tools') }}{% endif -%}"
)
_OTHER_ROLE: Final = "{{ raise_exception('this format has no place for the role ' ~ m.role) }}"
_TURNS: Final = """\
{%- if messages and messages[0].role == 'system' %}
{%- set system = messages[0].content %}{% set turns = messages[1:] %}
{%- else %}
{%- set system = none %}{% set turns = messages %}
{%- endif %}
{%- for m in turns %}
{%- if m.role != ('user' if loop.index0 is even else 'assistant') %}
{{- raise_exception('in this format user and assistant take turns, after one system message') }}
{%- endif %}
{%- endfor -%}
"""


def _marked_roles(begin: str, header: str, end: str, between: str, roles: str, prompt: str) -> str:
    """A format in which every message is a header that names its role, the content, an end mark."""
    return (
        f"{_NO_TOOLS}{begin}"
        f"{{%- for m in messages %}}{{%- if m.role not in {roles} %}}{_OTHER_ROLE}{{% endif -%}}"
        f"{header}"
        "{%- if m.role == 'assistant' -%}"
        f"{{% generation %}}{{{{- m.content -}}}}{end}{{% endgeneration %}}"
        f"{{%- else -%}}{{{{- m.content -}}}}{end}{{%- endif -%}}"
        f"{between}"
        "{%- endfor -%}"
        f"{{%- if add_generation_prompt -%}}{prompt}{{%- endif -%}}"
    )


_ASSISTANT: Final = "{% generation %}{{- m.content -}}{{ eos_token }}{% endgeneration %}"
_LLAMA2: Final = (
    f"{_NO_TOOLS}{_TURNS}"
    "{%- for m in turns %}{%- if m.role == 'user' -%}"
    "{{ bos_token ~ '[INST] ' }}"
    "{%- if loop.first and system is not none -%}"
    "{{ '<<SYS>>\n' ~ system ~ '\n<</SYS>>\n\n' }}{%- endif -%}"
    "{{ m.content ~ ' [/INST] ' }}"
    "{%- else -%}{% generation %}{{ m.content ~ ' ' ~ eos_token }}{% endgeneration %}{%- endif -%}"
    "{%- endfor -%}"
)
_MISTRAL: Final = (
    f"{_NO_TOOLS}{_TURNS}{{{{ bos_token }}}}"
    "{%- for m in turns %}{%- if m.role == 'user' -%}"
    "{{ '[INST] ' }}{%- if loop.first and system is not none -%}{{ system ~ '\n\n' }}{%- endif -%}"
    "{{ m.content ~ '[/INST]' }}"
    "{%- else -%}{{ ' ' }}"
    f"{_ASSISTANT}{{%- endif -%}}{{%- endfor -%}}"
)
_VICUNA: Final = (
    f"{_NO_TOOLS}{_TURNS}"
    "{{ (system if system is not none else 'A chat between a curious user and an artificial "
    "intelligence assistant. The assistant gives helpful, detailed, and polite answers to the "
    "user\\'s questions.') ~ ' ' }}"
    "{%- for m in turns %}{%- if m.role == 'user' -%}{{ 'USER: ' ~ m.content ~ ' ' }}"
    f"{{%- else -%}}{{{{ 'ASSISTANT: ' }}}}{_ASSISTANT}{{%- endif -%}}{{%- endfor -%}}"
    "{%- if add_generation_prompt -%}{{ 'ASSISTANT:' }}{%- endif -%}"
)
_ALPACA: Final = (
    f"{_NO_TOOLS}{_TURNS}"
    "{{ (system if system is not none else 'Below is an instruction that describes a task. Write a "
    "response that appropriately completes the request.') ~ '\n\n' }}"
    "{%- for m in turns %}{%- if m.role == 'user' -%}"
    "{{ '### Instruction:\n' ~ m.content ~ '\n\n' }}"
    f"{{%- else -%}}{{{{ '### Response:\n' }}}}{_ASSISTANT}{{{{ '\n\n' }}}}{{%- endif -%}}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '### Response:\n' }}{%- endif -%}"
)
_GEMMA: Final = (
    f"{_NO_TOOLS}{_TURNS}{{{{ bos_token }}}}"
    "{%- for m in turns %}{%- if m.role == 'user' -%}"
    "{{ '<start_of_turn>user\n' }}"
    "{%- if loop.first and system is not none -%}{{ system ~ '\n\n' }}{%- endif -%}"
    "{{ m.content ~ '<end_of_turn>\n' }}"
    "{%- else -%}{{ '<start_of_turn>model\n' }}"
    "{% generation %}{{ m.content ~ '<end_of_turn>' }}{% endgeneration %}{{ '\n' }}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ '<start_of_turn>model\n' }}{%- endif -%}"
)
_DEEPSEEK: Final = (
    f"{_NO_TOOLS}{_TURNS}{{{{ bos_token }}}}"
    "{%- if system is not none -%}{{ system }}{%- endif -%}"
    "{%- for m in turns %}{%- if m.role == 'user' -%}{{ '<｜User｜>' ~ m.content }}"
    f"{{%- else -%}}{{{{ '<｜Assistant｜>' }}}}{_ASSISTANT}{{%- endif -%}}{{%- endfor -%}}"
    "{%- if add_generation_prompt -%}{{ '<｜Assistant｜>' }}{%- endif -%}"
)
_OPENCHAT: Final = (
    f"{_NO_TOOLS}{_TURNS}{{{{ bos_token }}}}"
    "{%- if system is not none -%}{{ system ~ '<|end_of_turn|>' }}{%- endif -%}"
    "{%- for m in turns %}{%- if m.role == 'user' -%}"
    "{{ 'GPT4 Correct User: ' ~ m.content ~ '<|end_of_turn|>' }}"
    "{%- else -%}{{ 'GPT4 Correct Assistant: ' }}"
    "{% generation %}{{ m.content ~ '<|end_of_turn|>' }}{% endgeneration %}{%- endif -%}"
    "{%- endfor -%}"
    "{%- if add_generation_prompt -%}{{ 'GPT4 Correct Assistant:' }}{%- endif -%}"
)

BUILTIN: Final[dict[str, str]] = {
    "alpaca": _ALPACA,
    "deepseek": _DEEPSEEK,
    "gemma": _GEMMA,
    "llama2": _LLAMA2,
    "llama3": _marked_roles(
        "{{ bos_token }}",
        "{{ '<|start_header_id|>' ~ ('ipython' if m.role == 'tool' else m.role) "
        "~ '<|end_header_id|>\n\n' }}",
        "{{ '<|eot_id|>' }}",
        "",
        "['system', 'user', 'assistant', 'tool']",
        "{{ '<|start_header_id|>assistant<|end_header_id|>\n\n' }}",
    ),
    "mistral": _MISTRAL,
    "openchat": _OPENCHAT,
    "phi3": _marked_roles(
        "",
        "{{ '<|' ~ m.role ~ '|>\n' }}",
        "{{ '<|end|>' }}",
        "{{ '\n' }}",
        "['system', 'user', 'assistant']",
        "{{ '<|assistant|>\n' }}",
    ),
    "phi4": _marked_roles(
        "",
        "{{ '<|im_start|>' ~ m.role ~ '<|im_sep|>' }}",
        "{{ '<|im_end|>' }}",
        "",
        "['system', 'user', 'assistant']",
        "{{ '<|im_start|>assistant<|im_sep|>' }}",
    ),
    "vicuna": _VICUNA,
    "zephyr": _marked_roles(
        "",
        "{{ '<|' ~ m.role ~ '|>\n' }}",
        "{{ eos_token }}",
        "{{ '\n' }}",
        "['system', 'user', 'assistant']",
        "{{ '<|assistant|>\n' }}",
    ),
}
