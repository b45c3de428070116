// DeepSpeed's rules between two or more keys, for keys that set nothing in Troupe, because only DeepSpeed's engine or a
// capability that Troupe lacks uses them. Other rules between keys are in resolve.cpp and offload_rules.cpp.
#include <fmt/format.h>

#include <ranges>
#include <vector>

#include "config/keys/values.hpp"
#include "config/rules/resolve.hpp"

namespace troupe::config {
namespace {

class deepspeed_checks : key_reports {
 public:
  deepspeed_checks(const settings& given, reporter& report) : key_reports(given, report) {}

  void all() {
    if (given_.was_refused("zero_optimization.stage")) return;
    stage_ = static_cast<int>(given_.number_of("zero_optimization.stage"));
    stages();
    precision();
    optimizer();
    compile();
    compression();
    curriculum();
    if (given_.is_on("elasticity.enabled"))
      for (const char* key : {"elasticity.max_train_batch_size", "elasticity.micro_batch_sizes"})
        needed(key, "elasticity needs it");
    if (on_given("autotuning.end_profile_step") &&
        given_.number_of("autotuning.end_profile_step") <= given_.number_of("autotuning.start_profile_step"))
      error("autotuning.end_profile_step", "wanted a step after start_profile_step");
  }

 private:
  [[nodiscard]] bool on_given(std::string_view key) const { return given_.value_of(key) != nullptr; }
  void needed(const std::string& key, std::string_view why) {
    const key_info* row = key_named(key);
    if (on_given(key) || given_.is_auto(key) || given_.was_refused(key) || row == nullptr) return;
    error(key, fmt::format("wanted {}, got nothing: {}", wanted(*row), why));
  }

  void stages() {
    if (!given_.is_on("zero_optimization.compute_grad_norm") && stage_ != 1 && stage_ != 2)
      error("zero_optimization.compute_grad_norm", fmt::format("false: wanted stage 1 or 2, got stage {}", stage_));
    if (given_.text_of("gradient_allreduce_op") == "sum") {
      if (stage_ == 3) error("gradient_allreduce_op", "wanted mean at stage 3, got sum");
      if (given_.mappings.contains("zero_optimization.zenflow"))
        error("gradient_allreduce_op", "wanted mean with zenflow, got sum");
    }
  }

  void precision() {
    const auto device = given_.text_of("zero_optimization.offload_optimizer.device");
    if (given_.is_on("fp16.fp16_master_weights_and_grads") && (stage_ == 0 || device == "none"))
      error("fp16.fp16_master_weights_and_grads",
            "requires ZeRO stages 1 to 3 with zero_optimization.offload_optimizer");
    if (given_.is_on("bf16.bf16_optimizer_states") && !given_.is_on("bf16.bf16_master_weights_and_grads"))
      error("bf16.bf16_optimizer_states", "requires bf16_master_weights_and_grads: true, got false");
  }

  void optimizer() {
    const std::string type = given_.text_of("optimizer.type");
    const bool one_bit = type == "onebitadam" || type == "zerooneadam" || type == "onebitlamb";
    if (one_bit && stage_ > 0) error("optimizer.type", fmt::format("{}: wanted stage 0, got stage {}", type, stage_));
  }

  void compile() {
    if (given_.is_on("compile.offload_activation"))
      for (const char* other : {"compile.offload_parameters", "compile.offload_opt_states"})
        if (given_.is_on(other)) error(other, "wanted false with offload_activation, got true");
    if (given_.is_on("compile.offload_opt_states") &&
        given_.text_of("zero_optimization.offload_optimizer.device") != "none")
      error("compile.offload_opt_states", "wanted false with offload_optimizer, got true");
    if (given_.is_on("compile.deepcompile") && given_.text_of("gradient_allreduce_op") == "sum")
      error("gradient_allreduce_op", "wanted mean with deepcompile, got sum");
  }

  void compression() {
    const std::string root = "compression_training.";
    for (const char* name : {"weight_quantization", "activation_quantization", "sparse_pruning", "row_pruning",
                             "head_pruning", "channel_pruning"}) {
      const std::string shared = root + name + ".shared_parameters.", groups = root + name + ".different_groups";
      if (!given_.is_on(shared + "enabled")) continue;
      const bool snip = given_.text_of(shared + "method") == "snip_momentum";
      if (!given_.sections.contains(groups) && !snip)
        error(groups, fmt::format("wanted groups of modules, got nothing: {} is enabled", name));
      if (std::string_view(name) == "head_pruning") needed(shared + "num_heads", "head_pruning needs it");
      const std::string end = shared + "schedule_offset_end";
      if (on_given(end) && given_.number_of(end) < given_.number_of(shared + "schedule_offset"))
        error(end, "wanted a step of at least schedule_offset");
      groups_of(name, groups);
    }
    if (given_.is_on(root + "layer_reduction.enabled"))
      needed(root + "layer_reduction.keep_number_layer", "layer_reduction needs it");
  }

  /// Checks that each group of a compression technique has a value for the numbers that have no default.
  void groups_of(std::string_view technique, const std::string& groups) {
    const bool weights = technique == "weight_quantization", activations = technique == "activation_quantization";
    for (const auto& path : std::views::keys(given_.sections)) {
      if (!path.starts_with(groups + ".") || path.ends_with(".params")) continue;
      const std::vector<std::string> needed_numbers =
          weights ? std::vector<std::string>{"start_bits", "target_bits"}
                  : std::vector<std::string>{activations ? "bits" : "dense_ratio"};
      for (const std::string& number : needed_numbers)
        if (const std::string key = path + ".params." + number;
            given_.given.find(key) == given_.given.end() && !given_.was_refused(key))
          error(key, fmt::format("wanted a number, got nothing: a group of {} needs it", technique));
    }
  }

  void curriculum() {
    if (!given_.is_on("curriculum_learning.enabled")) return;
    for (const char* key : {"min_difficulty", "max_difficulty", "schedule_type"})
      needed(std::string("curriculum_learning.") + key, "curriculum_learning needs it");
    if (on_given("curriculum_learning.max_difficulty") &&
        given_.number_of("curriculum_learning.max_difficulty") < given_.number_of("curriculum_learning.min_difficulty"))
      error("curriculum_learning.max_difficulty", "wanted a number of at least min_difficulty");
  }

  int stage_ = 0;
};

}  // namespace

void deepspeed_rules(const settings& given, reporter& report) { deepspeed_checks(given, report).all(); }

}  // namespace troupe::config
