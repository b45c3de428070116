// Collects the rows of the key table, section by section. Every keys_*.cpp defines one or more of the functions
// declared at the end.
#pragma once

#include <string_view>

#include "config/keys/key_info.hpp"

/// Names of capabilities that Troupe does not have yet, and that some configuration keys need in order to act. Each
/// capability has one name, so that all its keys are found when it is added.
namespace troupe::config::capability {

inline constexpr std::string_view quantised_communication = "quantised communication (ZeRO++)";
inline constexpr std::string_view processes = "a job of several processes";
inline constexpr std::string_view experts = "expert parallelism";
inline constexpr std::string_view compression = "compression";
inline constexpr std::string_view optimizers = "this optimizer";
inline constexpr std::string_view schedules = "this learning rate schedule";
inline constexpr std::string_view curriculum = "curriculum sampling";
inline constexpr std::string_view layer_drop = "layer drop";
inline constexpr std::string_view autocast = "mixed precision chosen per operation";
inline constexpr std::string_view master_types = "an optimizer with 16-bit master weights and moments";
inline constexpr std::string_view tuning = "the search for settings";

}  // namespace troupe::config::capability

namespace troupe::config {

/// Collects rows: `row("zero_optimization.stage", value_type::integer)`.
class key_rows {
 public:
  key_info& row(std::string key, value_type type) {
    rows.emplace_back();
    rows.back().key = std::move(key);
    rows.back().type = type;
    return rows.back();
  }
  std::vector<key_info> rows;
};
/// Collects the rows of one section. If `waits_for` names a capability that Troupe lacks, every row needs that
/// capability unless the row names another one.
class section_rows {
 public:
  section_rows(key_rows& t, std::string name, std::string_view meaning, std::string_view waits_for = {})
      : t_(t), index_(t.rows.size()), name_(std::move(name)), waits_for_(waits_for) {
    t_.row(name_, value_type::section).means(meaning);
  }
  /// Returns the row of the section itself.
  key_info& itself() { return t_.rows[index_]; }
  key_info& operator()(std::string_view name, value_type type, std::string by_default, std::string_view meaning) {
    key_info& made = t_.row(name_ + "." + std::string(name), type).by_default(std::move(by_default)).means(meaning);
    return waits_for_.empty() ? made : made.when(waits_for_);
  }
  /// Adds the key `enabled` of a section that Troupe does not support yet; a job may only set it to false.
  key_info& off(std::string_view meaning) {
    key_info& made = t_.row(name_ + ".enabled", value_type::boolean).by_default("false").means(meaning).just("false");
    return made.needs(waits_for_);
  }

 private:
  key_rows& t_;
  size_t index_;
  std::string name_;
  std::string_view waits_for_;
};

void add_job_keys(key_rows& t);
void add_skip_keys(key_rows& t);
void add_cluster_keys(key_rows& t);
void add_model_keys(key_rows& t);
void add_lora_keys(key_rows& t);
void add_batch_keys(key_rows& t);
void add_optimizer_keys(key_rows& t);
void add_scheduler_keys(key_rows& t);
void add_zero_keys(key_rows& t);
void add_precision_keys(key_rows& t);
void add_offload_keys(key_rows& t);
void add_swap_keys(key_rows& t);
void add_checkpoint_keys(key_rows& t);
void add_monitor_keys(key_rows& t);
void add_pipeline_keys(key_rows& t);
void add_parallel_engine_keys(key_rows& t);
void add_compression_keys(key_rows& t);
void add_data_efficiency_keys(key_rows& t);
void add_deepspeed_keys(key_rows& t);

}  // namespace troupe::config
