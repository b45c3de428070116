// DeepSpeed's keys of the learning rate's curve, and the keys of the supported curves of PyTorch and transformers.
#include "config/keys/key_rows.hpp"

namespace troupe::config {
namespace {

using enum value_type;
using job = job_config;
using scheduler = core::schedule_options;

class curve_rows {
 public:
  curve_rows(key_rows& t, std::vector<std::string_view> types) : t_(t), types_(std::move(types)) {}
  key_info& operator()(const char* name, value_type type, const char* by_default, const char* meaning) {
    return t_.row(std::string("scheduler.params.") + name, type).by_default(by_default).means(meaning).of(types_);
  }

 private:
  key_rows& t_;
  std::vector<std::string_view> types_;
};

void add_warmup(key_rows& t) {
  curve_rows linear(t, {"WarmupLR", "WarmupDecayLR"});
  linear("warmup_min_lr", number, "0.0", "Learning rate at the start.")
      .at_least(0)
      .for_each_group()
      .into<&job::scheduler, &scheduler::warmup_min_lr>();
  linear("warmup_max_lr", number, "none",
         "Learning rate after the warm-up; none: the optimizer's (WarmupLR), 0.001 (WarmupDecayLR); `auto`: the "
         "optimizer's. Parameter groups with another rate get it times the ratio of both.")
      .at_least(0)
      .by_default_of("WarmupDecayLR", "0.001")
      .for_each_group()
      .into<&job::scheduler, &scheduler::warmup_max_lr>();
  curve_rows all(t, {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR"});
  all("warmup_num_steps", integer, "1000", "Steps of the warm-up.")
      .at_least(1)
      .into<&job::scheduler, &scheduler::warmup_num_steps>();
  all("warmup_type", text, "log", "The shape of the warm-up.")
      .one_of({"log", "linear"})
      .others_as("log")
      .into<&job::scheduler, &scheduler::warmup_type>();
  curve_rows ending(t, {"WarmupDecayLR", "WarmupCosineLR"});
  ending("total_num_steps", integer, "none", "Steps of the whole curve; `auto`: of the run.")
      .at_least(1)
      .needed_with({"WarmupDecayLR", "WarmupCosineLR"})
      .into<&job::scheduler, &scheduler::total_num_steps>();
  curve_rows cosine(t, {"WarmupCosineLR"});
  cosine("warmup_min_ratio", number, "0.0", "Where the warm-up starts, as a part of the optimizer's rate.")
      .at_least(0)
      .at_most(1)
      .into<&job::scheduler, &scheduler::warmup_min_ratio>();
  cosine("cos_min_ratio", number, "0.0001", "Where the curve ends, as a part of the optimizer's rate.")
      .at_least(0)
      .at_most(1)
      .into<&job::scheduler, &scheduler::cos_min_ratio>();
}

void add_range_test(key_rows& t) {
  curve_rows key(t, {"LRRangeTest"});
  key("lr_range_test_min_lr", number, "0.001", "Where it starts.")
      .at_least(0)
      .for_each_group()
      .into<&job::scheduler, &scheduler::lr_range_test_min_lr>();
  key("lr_range_test_step_size", integer, "2000", "Steps of one rise.")
      .at_least(1)
      .into<&job::scheduler, &scheduler::lr_range_test_step_size>();
  key("lr_range_test_step_rate", number, "1.0", "How far one rise goes, in starts.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::lr_range_test_step_rate>();
  key("lr_range_test_staircase", boolean, "false", "In stairs.")
      .into<&job::scheduler, &scheduler::lr_range_test_staircase>();
}

void add_one_cycle(key_rows& t) {
  curve_rows key(t, {"OneCycle"});
  key("cycle_min_lr", number, "0.0", "The lowest learning rate.")
      .at_least(0)
      .needed_with({"OneCycle"})
      .for_each_group()
      .into<&job::scheduler, &scheduler::cycle_min_lr>();
  key("cycle_max_lr", number, "0.0", "The highest.")
      .at_least(0)
      .needed_with({"OneCycle"})
      .for_each_group()
      .into<&job::scheduler, &scheduler::cycle_max_lr>();
  key("decay_lr_rate", number, "0.0", "The fall behind the cycle.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::decay_lr_rate>();
  key("cycle_first_step_size", integer, "2000", "Steps up.")
      .at_least(1)
      .into<&job::scheduler, &scheduler::cycle_first_step_size>();
  key("cycle_second_step_size", integer, "none", "Steps down; none: as many.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::cycle_second_step_size>();
  key("cycle_first_stair_count", integer, "0", "Stairs up; 0: a slope.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::cycle_first_stair_count>();
  key("cycle_second_stair_count", integer, "none", "Stairs down; none: as many.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::cycle_second_stair_count>();
  key("decay_step_size", integer, "0", "Steps of one fall behind the cycle.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::decay_step_size>();
  key("cycle_momentum", boolean, "true", "Move the first beta the other way, and take 0.99 for the second.")
      .into<&job::scheduler, &scheduler::cycle_momentum>();
  key("cycle_min_mom", number, "0.8", "The lowest first beta.")
      .at_least(0)
      .below(1)
      .for_each_group()
      .into<&job::scheduler, &scheduler::cycle_min_mom>();
  key("cycle_max_mom", number, "0.9", "The highest.")
      .at_least(0)
      .below(1)
      .for_each_group()
      .into<&job::scheduler, &scheduler::cycle_max_mom>();
  key("decay_mom_rate", number, "0.0", "Its rise behind the cycle, to 0.999 at most.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::decay_mom_rate>();
}

void add_torch_curves(key_rows& t) {
  curve_rows cosine(t, {"CosineAnnealingLR"});
  cosine("T_max", integer, "none", "Steps from the optimizer's rate down to eta_min; `auto`: of the run.")
      .at_least(1)
      .needed_with({"CosineAnnealingLR"})
      .into<&job::scheduler, &scheduler::t_max>();
  curve_rows waves(t, {"CosineAnnealingLR", "CosineAnnealingWarmRestarts"});
  waves("eta_min", number, "0.0", "The lowest learning rate.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::eta_min>();
  curve_rows restarts(t, {"CosineAnnealingWarmRestarts"});
  restarts("T_0", integer, "none", "Steps until the first restart.")
      .at_least(1)
      .needed_with({"CosineAnnealingWarmRestarts"})
      .into<&job::scheduler, &scheduler::t_0>();
  restarts("T_mult", integer, "1", "How many times longer each period is than the one before.")
      .at_least(1)
      .into<&job::scheduler, &scheduler::t_mult>();
  curve_rows linear(t, {"LinearLR"});
  linear("start_factor", number, "0.3333333333333333", "The part of the optimizer's rate it starts with.")
      .above(0)
      .at_most(1)
      .into<&job::scheduler, &scheduler::start_factor>();
  linear("end_factor", number, "1.0", "The part it ends with.")
      .at_least(0)
      .at_most(1)
      .into<&job::scheduler, &scheduler::end_factor>();
  curve_rows both(t, {"LinearLR", "PolynomialLR"});
  both("total_iters", integer, "5", "Steps of the change.")
      .at_least(1)
      .into<&job::scheduler, &scheduler::total_iters>();
  curve_rows polynomial(t, {"PolynomialLR"});
  polynomial("power", number, "1.0", "The power of the part of the steps that is left.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::power>();
  curve_rows torch(t, {"CosineAnnealingLR", "LinearLR", "PolynomialLR", "CosineAnnealingWarmRestarts"});
  torch("last_epoch", integer, "-1", "The step the curve starts behind.")
      .just("-1")
      .ignored("a run resumes from its checkpoint");
}

void add_stages(key_rows& t) {
  curve_rows warmed_up(t, {"CosineAnnealingLR", "LinearLR", "PolynomialLR", "CosineAnnealingWarmRestarts",
                           "cosine_with_restarts", "warmup_stable_decay"});
  warmed_up("num_warmup_steps", integer, "0",
            "Steps in which the rate rises linearly, from 0 (warmup_stable_decay: from min_lr_ratio) to the curve's "
            "first value; PyTorch's curves begin behind them.")
      .at_least(0)
      .into<&job::scheduler, &scheduler::num_warmup_steps>();
  curve_rows both(t, {"cosine_with_restarts", "warmup_stable_decay"});
  both("num_training_steps", integer, "none", "Steps of the whole curve with its warm-up; `auto`: of the run.")
      .at_least(1)
      .needed_with({"cosine_with_restarts", "warmup_stable_decay"})
      .into<&job::scheduler, &scheduler::num_training_steps>();
  curve_rows(t, {"cosine_with_restarts"})("num_cycles", integer, "1", "Times that the rate falls to 0.")
      .at_least(1)
      .into<&job::scheduler, &scheduler::num_cycles>();
  curve_rows stages(t, {"warmup_stable_decay"});
  stages("num_decay_steps", integer, "none", "Last steps, in which the rate falls; it is constant before.")
      .at_least(1)
      .needed_with({"warmup_stable_decay"})
      .into<&job::scheduler, &scheduler::num_decay_steps>();
  stages("decay_type", text, "cosine",
         "How it falls over the part p of these steps: (1 + cos(pi p)) / 2, 1 - p or 1 - sqrt(p).")
      .one_of({"cosine", "linear", "1-sqrt"})
      .into<&job::scheduler, &scheduler::decay_type>();
  stages("min_lr_ratio", number, "0.0", "Where the rate begins and ends, as a part of the optimizer's.")
      .at_least(0)
      .at_most(1)
      .into<&job::scheduler, &scheduler::min_lr_ratio>();
}

}  // namespace

void add_scheduler_keys(key_rows& t) {
  t.row("scheduler", section).means("How the learning rate changes over the steps; none: it stays.");
  t.row("scheduler.type", text)
      .one_of({core::schedule_names.begin() + 1, core::schedule_names.end()})
      .or_later({"ConstantLR", "ExponentialLR", "StepLR", "MultiStepLR", "LambdaLR", "CyclicLR", "OneCycleLR",
                 "ReduceLROnPlateau"})
      .needs(capability::schedules)
      .in_any_case()
      .into<&job::scheduler, &scheduler::type>()
      .means("The curve.");
  t.row("scheduler.params", section).means("The curve's numbers; a curve has those that name it.");
  add_warmup(t);
  add_range_test(t);
  add_one_cycle(t);
  add_torch_curves(t);
  add_stages(t);
  curve_rows(t, {"WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "LRRangeTest", "OneCycle"})(
      "last_batch_iteration", integer, "-1", "The step the curve starts behind.")
      .just("-1")
      .ignored("a run resumes from its checkpoint");
}

}  // namespace troupe::config
