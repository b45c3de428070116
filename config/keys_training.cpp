// DeepSpeed's keys of batches, optimizer and learning rate. Defaults are DeepSpeed 0.19's.
#include <fmt/format.h>

#include "config/key_table.hpp"
#include "config/values.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;

hand_made betas_field() {
  return {[](job_config& c, const node& v) -> std::optional<std::string> {
            c.optimizer.beta1 = *number_in(*v.items[0]);
            c.optimizer.beta2 = *number_in(*v.items[1]);
            return std::nullopt;
          },
          [](const job_config& c) { return fmt::format("[{}, {}]", c.optimizer.beta1, c.optimizer.beta2); }};
}

constexpr double most_batch = 1e12;

}  // namespace

void add_batch_keys(key_rows& t) {
  t.row("train_batch_size", integer)
      .at_least(1)
      .at_most(most_batch)
      .into<&job::train_batch_size>()
      .means(
          "Samples of one optimizer step: micro-batch x accumulation steps x data-parallel ranks. One or two of the "
          "three follow from the others.");
  t.row("train_micro_batch_size_per_gpu", integer)
      .at_least(1)
      .at_most(most_batch)
      .into<&job::train_micro_batch_size_per_gpu>()
      .means("Samples of one forward on one rank.");
  t.row("gradient_accumulation_steps", integer)
      .at_least(1)
      .at_most(most_batch)
      .into<&job::gradient_accumulation_steps>()
      .means("Micro-batches of one optimizer step.");
  t.row("managed_gradient_accumulation", boolean)
      .by_default("true")
      .just("true")
      .means("Count micro-batches; false: the host decides when to step.");
  t.row("steps_per_print", integer).at_least(1).into<&job::steps_per_print>().means("Log a line every so many steps.");
  t.row("gradient_clipping", number)
      .by_default("1.0")
      .at_least(0)
      .into<&job::gradient_clipping>()
      .means("The largest global gradient norm; 0: no clipping.");
  t.row("prescale_gradients", boolean)
      .by_default("false")
      .into<&job::prescale_gradients>()
      .means("Divide gradients before they are summed over ranks, not after.");
  t.row("gradient_predivide_factor", number)
      .by_default("1.0")
      .above(0)
      .into<&job::gradient_predivide_factor>()
      .means("Divide by this before the sum over ranks, by the rest after it.");
  t.row("gradient_allreduce_op", text)
      .by_default("mean")
      .one_of({"mean", "sum"})
      .in_any_case()
      .just("mean")
      .means("Gradients are means over the global batch, or sums over ranks.");
  t.row("communication_data_type", dtype)
      .one_of({"fp16", "bf16", "fp32"})
      .into<&job::communication_data_type>()
      .means("The type gradients are exchanged in; none: the parameters'.");
  t.row("seq_parallel_communication_data_type", dtype)
      .by_default("fp32")
      .one_of({"fp16", "bf16", "fp32"})
      .ignored("parallel.sequence is 1 in this version")
      .means("The same between sequence-parallel ranks.");
}

void add_optimizer_keys(key_rows& t) {
  using optimizer = optimizer_section;
  using scheduler = scheduler_section;
  t.row("optimizer", section).means("How gradients change parameters.");
  t.row("optimizer.type", text)
      .by_default("adamw")
      .one_of({"adam", "adamw"})
      .in_any_case()
      .into<&job::optimizer, &optimizer::type>()
      .means("The rule. Adam decouples weight decay too, unless adam_w_mode is false.");
  t.row("optimizer.legacy_fusion", boolean)
      .by_default("false")
      .ignored("one fused kernel for all")
      .means("An older fused kernel.");
  t.row("optimizer.params", section).means("The rule's numbers.");
  t.row("optimizer.params.lr", number)
      .by_default("0.001")
      .at_least(0)
      .into<&job::optimizer, &optimizer::lr>()
      .means("Learning rate, where no scheduler says otherwise.");
  t.row("optimizer.params.betas", number_list)
      .by_default("[0.9, 0.999]")
      .one_of({"beta1", "beta2"})
      .at_least(0)
      .below(1)
      .by_hand(betas_field())
      .means("How slowly the two moments forget.");
  t.row("optimizer.params.eps", number)
      .by_default("1e-08")
      .at_least(0)
      .into<&job::optimizer, &optimizer::eps>()
      .means("Added to the root of the second moment.");
  t.row("optimizer.params.weight_decay", number)
      .by_default("0.0")
      .at_least(0)
      .into<&job::optimizer, &optimizer::weight_decay>()
      .means("Pull of parameters towards zero.");
  t.row("optimizer.params.adam_w_mode", boolean)
      .by_default("true")
      .into<&job::optimizer, &optimizer::adam_w_mode>()
      .means("Weight decay beside the gradient (AdamW), not inside it (L2).");
  t.row("optimizer.params.bias_correction", boolean)
      .by_default("true")
      .into<&job::optimizer, &optimizer::bias_correction>()
      .means("Correct the moments for their start at zero.");
  t.row("optimizer.params.torch_adam", boolean)
      .by_default("false")
      .ignored("there is one Adam kernel")
      .means("Use PyTorch's own Adam.");
  t.row("optimizer.params.amsgrad", boolean).by_default("false").just("false").means("Keep the largest second moment.");
  t.row("optimizer.params.max_grad_norm", number)
      .refused("use gradient_clipping at the top level")
      .means("Never accepted: use gradient_clipping.");

  t.row("scheduler", section).means("How the learning rate changes over the steps; none: it stays.");
  t.row("scheduler.type", text)
      .one_of({"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"})
      .in_any_case()
      .into<&job::scheduler, &scheduler::type>()
      .means("The curve.");
  t.row("scheduler.params", section).means("The curve's numbers.");
  t.row("scheduler.params.warmup_min_lr", number)
      .by_default("0.0")
      .at_least(0)
      .into<&job::scheduler, &scheduler::warmup_min_lr>()
      .means("Learning rate at the start.");
  t.row("scheduler.params.warmup_max_lr", number)
      .at_least(0)
      .into<&job::scheduler, &scheduler::warmup_max_lr>()
      .means("Learning rate after the warm-up; none: the optimizer's (WarmupLR), 0.001 (WarmupDecayLR).");
  t.row("scheduler.params.warmup_num_steps", integer)
      .by_default("1000")
      .at_least(1)
      .into<&job::scheduler, &scheduler::warmup_num_steps>()
      .means("Steps of the warm-up.");
  t.row("scheduler.params.total_num_steps", integer)
      .at_least(1)
      .into<&job::scheduler, &scheduler::total_num_steps>()
      .means("Steps of the whole curve; WarmupDecayLR and WarmupCosineLR need it.");
  t.row("scheduler.params.warmup_type", text)
      .by_default("log")
      .one_of({"log", "linear"})
      .into<&job::scheduler, &scheduler::warmup_type>()
      .means("The shape of the warm-up.");
  t.row("scheduler.params.warmup_min_ratio", number)
      .by_default("0.0")
      .at_least(0)
      .at_most(1)
      .into<&job::scheduler, &scheduler::warmup_min_ratio>()
      .means("WarmupCosineLR: where the warm-up starts.");
  t.row("scheduler.params.cos_min_ratio", number)
      .by_default("0.0001")
      .at_least(0)
      .at_most(1)
      .into<&job::scheduler, &scheduler::cos_min_ratio>()
      .means("WarmupCosineLR: where the curve ends.");
  t.row("scheduler.params.last_batch_iteration", integer)
      .by_default("-1")
      .just("-1")
      .means("The step the curve starts behind.");
}

}  // namespace troupe::config
