// DeepSpeed's keys of batches, optimizer and learning rate. Defaults are DeepSpeed 0.19's.
#include <fmt/format.h>

#include "config/capabilities.hpp"
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

/// Numbers of the rules that are not here yet.
void add_other_optimizers(key_rows& t) {
  const auto key = [&](const char* name, value_type type, const char* by_default, const char* meaning) -> key_info& {
    return t.row(std::string("optimizer.params.") + name, type)
        .by_default(by_default)
        .means(meaning)
        .when(capability::optimizers);
  };
  key("momentum", number, "0.0", "SGD, Muon: how slowly the moment forgets.").at_least(0).below(1);
  key("dampening", number, "0.0", "SGD: the share of a gradient that is left out.");
  key("nesterov", boolean, "false", "SGD: look ahead.");
  key("lr_decay", number, "0.0", "Adagrad: the fall of the learning rate.").at_least(0);
  key("initial_accumulator_value", number, "0.0", "Adagrad: where the sum starts.").at_least(0);
  key("max_coeff", number, "10.0", "LAMB: the largest trust ratio.").above(0);
  key("min_coeff", number, "0.01", "LAMB: the smallest trust ratio.").at_least(0);
  key("eps_inside_sqrt", boolean, "false", "LAMB: eps under the root.");
  key("muon_lr", number, "none", "Muon: learning rate of matrices.").at_least(0);
  key("adam_lr", number, "none", "Muon: learning rate of everything else.").at_least(0);
  key("ns_method", text, "gram", "Muon: how momentum is made orthogonal.");
  key("freeze_step", integer, "100000", "1-bit rules: steps until they compress.").at_least(0);
  key("var_freeze_step", integer, "100000", "0/1 Adam: steps until the variance stays.").at_least(0);
  key("var_update_scaler", integer, "16", "0/1 Adam: steps between updates of the variance.").at_least(1);
  key("local_step_scaler", integer, "32678", "0/1 Adam: steps between two exchanges.").at_least(1);
  key("local_step_clipper", integer, "16", "0/1 Adam: the most of those.").at_least(1);
  key("coeff_beta", number, "0.9", "1-bit LAMB: how slowly the ratio forgets.").at_least(0).below(1);
  key("factor_max", number, "4.0", "1-bit LAMB: a bound.").at_least(0);
  key("factor_min", number, "0.5", "1-bit LAMB: a bound.").at_least(0);
  key("factor_threshold", number, "0.1", "1-bit LAMB: a bound.").at_least(0);
  key("cuda_aware", boolean, "false", "1-bit rules: MPI takes GPU memory.").ignored("exchange is not by MPI");
  key("comm_backend_name", text, "nccl", "1-bit rules: what exchanges.").ignored("the fabric decides");
  for (const char* name : {"fused", "foreach", "capturable", "maximize", "differentiable", "set_grad_none"})
    key(name, boolean, "false", "An option of a PyTorch optimizer.").ignored("there is one kernel of each rule");
}

/// Numbers of the curves that are not here yet.
void add_other_schedules(key_rows& t) {
  const auto key = [&](const char* name, value_type type, const char* by_default, const char* meaning) -> key_info& {
    return t.row(std::string("scheduler.params.") + name, type)
        .by_default(by_default)
        .means(meaning)
        .when(capability::schedules);
  };
  key("lr_range_test_min_lr", number, "0.001", "LRRangeTest: where it starts.").at_least(0);
  key("lr_range_test_step_size", integer, "2000", "LRRangeTest: steps of one rise.").at_least(1);
  key("lr_range_test_step_rate", number, "1.0", "LRRangeTest: how far one rise goes.").at_least(0);
  key("lr_range_test_staircase", boolean, "false", "LRRangeTest: in stairs.");
  key("cycle_min_lr", number, "none", "OneCycle: the lowest learning rate.").at_least(0);
  key("cycle_max_lr", number, "none", "OneCycle: the highest.").at_least(0);
  key("decay_lr_rate", number, "0.0", "OneCycle: the fall behind the cycle.").at_least(0);
  key("cycle_first_step_size", integer, "2000", "OneCycle: steps up.").at_least(1);
  key("cycle_second_step_size", integer, "none", "OneCycle: steps down; none: as many.").at_least(0);
  key("cycle_first_stair_count", integer, "0", "OneCycle: stairs up; 0: a slope.").at_least(0);
  key("cycle_second_stair_count", integer, "none", "OneCycle: stairs down; none: as many.").at_least(0);
  key("decay_step_size", integer, "0", "OneCycle: steps of one fall.").at_least(0);
  key("cycle_momentum", boolean, "true", "OneCycle: move the first beta the other way.");
  key("cycle_min_mom", number, "0.8", "OneCycle: the lowest.").at_least(0).below(1);
  key("cycle_max_mom", number, "0.9", "OneCycle: the highest.").at_least(0).below(1);
  key("decay_mom_rate", number, "0.0", "OneCycle: its rise behind the cycle.").at_least(0);
}

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
      .needs(capability::host_steps)
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
      .ignored("one rule scales gradients, so that every way to shard gives the same bits")
      .means("Gradients are means over the global batch, or sums over ranks.");
  t.row("communication_data_type", dtype)
      .one_of({"fp16", "bf16", "fp32"})
      .into<&job::communication_data_type>()
      .means("The type gradients are exchanged in; none: the parameters'.");
  t.row("seq_parallel_communication_data_type", dtype)
      .by_default("fp32")
      .one_of({"fp16", "bf16", "fp32"})
      .when(capability::sequence)
      .means("The same between sequence-parallel ranks.");
}

void add_optimizer_keys(key_rows& t) {
  using optimizer = optimizer_section;
  using scheduler = scheduler_section;
  t.row("optimizer", section).means("How gradients change parameters.");
  t.row("optimizer.type", text)
      .by_default("adamw")
      .one_of({"adam", "adamw"})
      .or_later({"adagrad",    "lamb",   "lion",    "muon",  "sgd",      "onebitadam", "zerooneadam",
                 "onebitlamb", "muadam", "muadamw", "musgd", "adadelta", "adafactor",  "adamax",
                 "asgd",       "lbfgs",  "nadam",   "radam", "rmsprop",  "rprop",      "sparseadam"})
      .needs(capability::optimizers)
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
  t.row("optimizer.params.amsgrad", boolean)
      .by_default("false")
      .just("false")
      .needs(capability::optimizers)
      .means("Keep the largest second moment.");
  t.row("optimizer.params.max_grad_norm", number)
      .refused("use gradient_clipping at the top level")
      .means("Never accepted: use gradient_clipping.");

  add_other_optimizers(t);

  t.row("scheduler", section).means("How the learning rate changes over the steps; none: it stays.");
  t.row("scheduler.type", text)
      .one_of({"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"})
      .or_later({"LRRangeTest", "OneCycle", "ConstantLR", "LinearLR", "ExponentialLR", "PolynomialLR", "StepLR",
                 "MultiStepLR", "LambdaLR", "CosineAnnealingLR", "CosineAnnealingWarmRestarts", "CyclicLR",
                 "OneCycleLR", "ReduceLROnPlateau"})
      .needs(capability::schedules)
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
      .ignored("a run goes on from its checkpoint")
      .means("The step the curve starts behind.");
  add_other_schedules(t);
}

}  // namespace troupe::config
