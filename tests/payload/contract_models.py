"""Models and capture code made for the tests of the level `contract`."""

from remote.schema import Job

MODELS = """
    from typing import Literal

    def make_layers(count, layer_fn, prefix):
        return 0, count, [layer_fn(prefix=f"{prefix}.{n}") for n in range(count)]

    def init_vllm_registered_model(vllm_config, *, hf_config=None, architectures=None):
        raise AssertionError("no model is made")

    class ModuleList(list):
        pass

    class Norm:
        pass

    class Layer:
        def forward(self, positions, hidden_states, residual):
            if residual is None:
                residual = hidden_states
            return hidden_states, residual

    class OtherLayer:
        def forward(self, positions, hidden_states, residual, *, scale=None):
            return hidden_states, residual

    class OddLayer:
        def forward(self, hidden_states, position_ids):
            hidden_states = hidden_states + 1
            return hidden_states

    class SummingLayer:
        def forward(self, positions, hidden_states, residual=None):
            def inner():
                return 1, 2, 3
            hidden_states = hidden_states + residual
            return hidden_states

    class Inner:
        def __init__(self, *, vllm_config, prefix="", layer_type=Layer):
            self.start_layer, self.end_layer, self.layers = make_layers(
                4, lambda prefix: layer_type(vllm_config, prefix), prefix="x"
            )
            self.norm = Norm() if prefix else Norm()

        def embed_input_ids(self, input_ids):
            return input_ids

        def forward(self, input_ids, positions):
            return input_ids

    class InnerOfOthers(Inner):
        def __init__(self, *, vllm_config, prefix=""):
            super().__init__(vllm_config=vllm_config, prefix=prefix, layer_type=OtherLayer)

    class InnerListed:
        def __init__(self):
            self.layers = ModuleList([OddLayer(n) for n in range(3)])
            self.start_layer = self.end_layer = 0
            self.norm: Norm = Norm()

        def embed_input_ids(self, input_ids):
            return input_ids

    class InnerSumming(Inner):
        def __init__(self):
            self.layers = ModuleList([SummingLayer()])
            self.start_layer = self.end_layer = self.norm = None

    class Text:
        supports_eagle3 = True

        def __init__(self, *, vllm_config, prefix=""):
            self.model = self._make(vllm_config=vllm_config, prefix=prefix)
            self.lm_head = Norm()

        def _make(self, vllm_config, prefix):
            return Inner(vllm_config=vllm_config, prefix=prefix)

    class TextOfOthers(Text):
        inner_type = InnerOfOthers

        def _make(self, vllm_config, prefix):
            made = self.inner_type(vllm_config=vllm_config, prefix=prefix)
            return made

    class Plain:
        def __init__(self):
            self.model = InnerListed()
            self.lm_head = Norm()

    class Summing:
        supports_eagle3 = True

        def __init__(self):
            self.model = InnerSumming()

    class Tower:
        def __init__(self):
            self.layers = ModuleList([OddLayer()])

    class Wrapper:
        def __init__(self, vllm_config):
            self.vision = Tower()
            self.language_model = init_vllm_registered_model(
                vllm_config, hf_config=vllm_config.text_config, architectures=["Plain"]
            )

    class WrapperByConfig:
        supports_eagle3 = True

        def __init__(self, vllm_config):
            self.language_model = init_vllm_registered_model(vllm_config, hf_config=vllm_config.text_config)

    class Circle:
        supports_eagle3 = True

        def __init__(self):
            inner = other
            other = inner
            self.model = inner

        def make(self):
            self.model = self.make()
            return self.make()

    class Opaque:
        supports_eagle3 = True

        def __getattr__(self, name):
            return name
"""

WORKER = """
    import types
    from itertools import islice

    def supports_eagle3(model):
        return getattr(model, "supports_eagle3", False)

    def _patched(self, input_ids, positions, inputs_embeds=None):
        hidden_states = inputs_embeds if inputs_embeds is not None else self.embed_input_ids(input_ids)
        residual = None
        extension = self._extension
        for idx, layer in enumerate(islice(self.layers, self.start_layer, self.end_layer)):
            hidden_states, residual = layer(
                hidden_states=hidden_states, positions=positions, residual=residual
            )
        return self.norm(hidden_states, residual)

    class Extension:
        def setup(self, layer_ids):
            model = self.model_runner.model
            if not supports_eagle3(model):
                raise ValueError("not supported")
            base = model.model
            base._extension = self
            base.forward = types.MethodType(_patched, base)
"""


def job(**changes: object) -> Job:
    return Job(name="j", engine="speculators", python="p", workdir="w", output="o", **changes)
