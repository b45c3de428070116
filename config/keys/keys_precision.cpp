// DeepSpeed's keys of number formats, and activation checkpointing. Defaults are DeepSpeed 0.19's.
#include "config/keys/key_rows.hpp"
#include "config/keys/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;

hand_made param_dtype_field() {
  // The field stores only whether the value is fp64. Any other value has to agree with the sections fp16 and bf16,
  // which resolve.cpp checks.
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.data_types.reference_fp64 = core::float_dtype_from(v.text) == core::dtype::f64;
            return std::nullopt;
          },
          [](const job_config& c) -> std::string { return c.data_types.reference_fp64 ? "fp64" : "none"; }};
}

void add_fp16_keys(key_rows& t) {
  using fp16 = fp16_section;
  t.row("fp16", section).switched_by("fp16.enabled").means("Half precision with loss scaling.");
  t.row("fp16.enabled", boolean)
      .by_default("false")
      .into<&job::fp16, &fp16::enabled>()
      .means("Parameters, activations and gradients in fp16; master weights stay fp32.");
  t.row("fp16.auto_cast", boolean)
      .by_default("false")
      .ignored("inputs are token numbers")
      .means("Cast inputs to fp16.");
  t.row("fp16.loss_scale", number)
      .by_default("0")
      .at_least(0)
      .into<&job::fp16, &fp16::loss_scale>()
      .means("A fixed loss scale; 0: dynamic.");
  t.row("fp16.initial_scale_power", integer)
      .by_default("16")
      .at_least(0)
      .at_most(127)
      .into<&job::fp16, &fp16::initial_scale_power>()
      .means("The dynamic scale starts at 2 to this power.");
  t.row("fp16.loss_scale_window", integer)
      .by_default("1000")
      .at_least(0)
      .into<&job::fp16, &fp16::loss_scale_window>()
      .means("Good steps until the scale doubles.");
  t.row("fp16.hysteresis", integer)
      .by_default("2")
      .at_least(1)
      .at_most(1 << 30)
      .into<&job::fp16, &fp16::hysteresis>()
      .means("Overflows until the scale halves.");
  t.row("fp16.consecutive_hysteresis", boolean)
      .by_default("false")
      .into<&job::fp16, &fp16::consecutive_hysteresis>()
      .means("A good step refills the hysteresis.");
  t.row("fp16.min_loss_scale", number)
      .by_default("1")
      .at_least(0)
      .into<&job::fp16, &fp16::min_loss_scale>()
      .means("The scale never falls below this.");
  t.row("fp16.fp16_master_weights_and_grads", boolean)
      .by_default("false")
      .just("false")
      .needs(capability::master_types)
      .means("Master weights and gradients in fp16 too.");
}

void add_bf16_keys(key_rows& t) {
  using bf16 = bf16_section;
  t.row("bf16", section).switched_by("bf16.enabled").also("bfloat16").means("bfloat16: fp32's range, no loss scaling.");
  t.row("bf16.enabled", boolean)
      .by_default("false")
      .into<&job::bf16, &bf16::enabled>()
      .means("Parameters, activations and gradients in bf16; master weights stay fp32.");
  t.row("bf16.check_grad_overflow", boolean)
      .by_default("true")
      .into<&job::bf16, &bf16::check_grad_overflow>()
      .means("Skip a step whose gradients hold an infinity or NaN.");
  t.row("bf16.immediate_grad_update", boolean)
      .by_default("false")
      .ignored("gradients go straight to their bucket anyway")
      .means("Add to the fp32 buffer during backward.");
  t.row("bf16.bf16_master_weights_and_grads", boolean)
      .by_default("false")
      .just("false")
      .needs(capability::master_types)
      .means("Master weights and gradients in bf16 too.");
  t.row("bf16.bf16_optimizer_states", boolean)
      .by_default("false")
      .just("false")
      .needs(capability::master_types)
      .means("Moments in bf16 too.");
}

void add_data_type_keys(key_rows& t) {
  using types = data_types_section;
  t.row("data_types", section).means("Number formats beside the model's own.");
  t.row("data_types.grad_accum_dtype", dtype)
      .one_of({"fp16", "bf16", "fp32"})
      .into<&job::data_types, &types::grad_accum_dtype>()
      .means("The type gradients of micro-batches are added up in; none: the parameters'.");
  t.row("data_types.param_dtype", dtype)
      .one_of({"fp16", "bf16", "fp32", "fp64"})
      .by_hand(param_dtype_field())
      .means("fp64: everything in fp64, as a reference; otherwise it must agree with fp16 and bf16.");
  t.row("data_types.buffer_dtype", dtype)
      .one_of({"fp16", "bf16", "fp32"})
      .ignored("models have no buffers")
      .means("The type buffers are cast to.");
  t.row("data_types.keep_in_fp32_modules", texts)
      .by_default("auto")
      .ignored("models have no buffers")
      .means("Modules whose buffers stay fp32.");
}

void add_activation_checkpointing_keys(key_rows& t) {
  using activations = activation_checkpointing_section;
  t.row("activation_checkpointing", section).means("Recompute activations in backward instead of keeping them.");
  t.row("activation_checkpointing.enabled", boolean)
      .by_default("false")
      .into<&job::activation_checkpointing, &activations::enabled>()
      .means("Recompute every unit from its input.");
  t.row("activation_checkpointing.number_checkpoints", integer)
      .at_least(1)
      .at_most(4096)
      .ignored("every unit keeps its input, and no buffer is reserved for checkpoints")
      .means("Number of checkpoints for which DeepSpeed reserves one buffer.");
  const auto flag = [&](const char* name, const char* meaning) -> key_info& {
    return t.row(std::string("activation_checkpointing.") + name, boolean).by_default("false").means(meaning);
  };
  flag("selective",
       "With enabled: of what backward needs, only what products behind a norm make again is not kept, instead of all "
       "of "
       "a unit; attention is not computed again.")
      .into<&job::activation_checkpointing, &activation_checkpointing_section::selective>();
  flag(
      "partition_activations",
      "Cut what is kept over the tensor-parallel ranks: parallel.sharded_norms, and what units exchange within them is "
      "exchanged again in a recompute.")
      .into<&job::activation_checkpointing, &activation_checkpointing_section::partition_activations>();
  flag("contiguous_memory_optimization", "Copy what is kept into one buffer.")
      .ignored("buffers have planned slots, which never break up");
  flag("cpu_checkpointing", "Keep it on the host: cluster.offload_activations: cpu.")
      .into<&job::activation_checkpointing, &activation_checkpointing_section::cpu_checkpointing>();
  flag("synchronize_checkpoint_boundary", "Wait for the device at each boundary.")
      .ignored("a plan has its order proved instead");
  flag("profile", "Log the time of each.").ignored("the trace shows every recomputation");
}

}  // namespace

void add_precision_keys(key_rows& t) {
  add_fp16_keys(t);
  add_bf16_keys(t);
  add_data_type_keys(t);
  add_activation_checkpointing_keys(t);
}

}  // namespace troupe::config
