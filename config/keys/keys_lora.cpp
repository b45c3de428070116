// Rows of the key table for the `lora` section. Names of PEFT's LoraConfig and of DeepSpeed's LoRAConfig are aliases.
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;

/// Adds the keys that only DeepSpeed's LoRAConfig has: other keys of Troupe have their effects.
void add_deepspeed_lora(section_rows& key) {
  constexpr double most_ranks = 65536;
  key("base_weight_sharding", integer, "1", "DeepSpeed's: ranks over which the frozen weights are cut.")
      .at_least(1)
      .at_most(most_ranks)
      .ignored("zero_optimization.stage: 3 cuts the frozen weights over the data ranks");
  key("offload", boolean, "false", "DeepSpeed's: frozen weights in host memory. Use zero_optimization.offload_param.")
      .just("false");
  key("offload_ratio", number, "0",
      "DeepSpeed's: share of the frozen weights in host memory. Use "
      "zero_optimization.offload_param.")
      .just("0");
  key("quantization", boolean, "false", "DeepSpeed's QuantizationConfig: frozen weights in 6, 8 or 12 bits.")
      .also("quantization_config")
      .just("false");
  key("delay_lora_init", boolean, "false", "DeepSpeed's: the program itself sets the first values.").just("false");
}

}  // namespace

void add_lora_keys(key_rows& t) {
  using job = job_config;
  using lora = lora_section;
  constexpr double most_rank = 65536;
  section_rows key(t, "lora",
                   "Low-rank adapters (LoRA) of linear layers, which are trained; all other parameters are frozen.");
  key("r", integer, "8", "Rank of an adapter's two matrices; with from: that of the folder.")
      .also("lora_r")
      .at_least(1)
      .at_most(most_rank)
      .into<&job::lora, &lora::r>()
      .tells<&job::lora, &lora::r_given>();
  key("alpha", number, "8", "An adapter's output is multiplied by alpha / r; with from: that of the folder.")
      .also("lora_alpha")
      .above(0)
      .into<&job::lora, &lora::alpha>()
      .tells<&job::lora, &lora::alpha_given>();
  key("rslora", boolean, "false", "Multiply by alpha / sqrt(r) instead; with from: as the folder says.")
      .also("use_rslora")
      .into<&job::lora, &lora::rslora>()
      .tells<&job::lora, &lora::rslora_given>();
  key("dropout", number, "0", "Dropout on what an adapter reads.")
      .also("lora_dropout")
      .at_least(0)
      .below(1)
      .into<&job::lora, &lora::dropout>()
      .tells<&job::lora, &lora::given>();
  key("targets", texts, "none",
      "The layers: names, or their last parts, such as q_proj; all-linear: every linear layer but the head. None: "
      "those of from.")
      .also("target_modules")
      .also("target_mods")
      .into<&job::lora, &lora::targets>()
      .tells<&job::lora, &lora::given>();
  key("modules_to_save", texts, "none", "Layers, named like targets, whose own parameters are trained as well.")
      .into<&job::lora, &lora::modules_to_save>()
      .tells<&job::lora, &lora::given>();
  key("init", text, "kaiming",
      "How the first matrix begins: uniform within 1 / sqrt(inputs), or with a normal deviation of 1 / r. The second "
      "begins as 0.")
      .one_of({"kaiming", "gaussian"})
      .into<&job::lora, &lora::init>()
      .tells<&job::lora, &lora::given>();
  key("from", path, "none", "A folder of PEFT (adapter_config.json, adapter_model.safetensors) to train on from.")
      .into<&job::lora, &lora::from>()
      .tells<&job::lora, &lora::given>();
  add_deepspeed_lora(key);
}

}  // namespace troupe::config
