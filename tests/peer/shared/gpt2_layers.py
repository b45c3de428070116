"""transformers' GPT-2 as a DeepSpeed PipelineModule: embedding, positions, blocks, last norm, head; the head is the embedding.

The files of its layers are named by position; `name_rules` gives them the names that GPT-2 has elsewhere, in the form of
`troupe checkpoint --map` (docs/checkpoints.md).
"""


def name_rules(layers):
    return f"""
layers: {{1: transformer.wpe., 2-{layers + 1}: 'transformer.h.{{layer-2}}.', {layers + 2}: transformer.ln_f.}}
names: {{tied_modules\\.embed\\.weight: transformer.wte.weight}}
"""


def pipeline_module(keys, stages, partition):
    """`keys`: of GPT2Config. First values are of torch's seeds alone, larger than GPT-2's: a few steps show what was loaded."""
    import torch
    from deepspeed.pipe import LayerSpec, PipelineModule, TiedLayerSpec
    from transformers import GPT2Config
    from transformers.models.gpt2.modeling_gpt2 import GPT2Block

    class positions(torch.nn.Embedding):
        def forward(self, x):
            return x + self.weight[:x.shape[1]]

    class block(GPT2Block):
        def forward(self, x):
            y = super().forward(x)
            return y[0] if isinstance(y, tuple) else y

    config = GPT2Config(**keys, attn_implementation="sdpa")
    vocabulary, width = keys["vocab_size"], keys["n_embd"]
    head = lambda module, x: torch.nn.functional.linear(x, module.weight)
    layers = [TiedLayerSpec("embed", torch.nn.Embedding, vocabulary, width),
              LayerSpec(positions, keys["n_positions"], width),
              *[LayerSpec(block, config, layer_idx=i) for i in range(keys["n_layer"])],
              LayerSpec(torch.nn.LayerNorm, width, eps=config.layer_norm_epsilon),
              TiedLayerSpec("embed", torch.nn.Embedding, vocabulary, width, forward_fn=head)]
    loss = lambda y, target: torch.nn.functional.cross_entropy(y.float().reshape(-1, vocabulary), target.reshape(-1))
    model = PipelineModule(layers, num_stages=stages, loss_fn=loss, partition_method=partition)
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() >= 2:
                torch.manual_seed(p.numel())  # what is tied begins alike on both stages
                p.normal_(0, 0.2)
    return model
