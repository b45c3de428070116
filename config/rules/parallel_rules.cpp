// Rules between the keys of degrees and pipelines. Leaves rules that need the model and the schedule to
// job/pipeline.hpp.
#include <fmt/format.h>

#include "config/keys/idle.hpp"
#include "config/rules/resolve.hpp"
#include "config/sections/name_pattern.hpp"

namespace troupe::config {
namespace {

/// Largest number of data ranks, equal to the limit in the range of `parallel.data`.
constexpr uint64_t most_data_ranks = 65536;

class parallel_checks : key_rules {
 public:
  parallel_checks(const settings& given, job_config& config, reporter& report, origins& derived, purpose why)
      : key_rules(given, config, report, derived), why_(why) {}

  void all() {
    deepspeed_degrees_of("parallel.tensor", config_.parallel.tensor,
                         {{"tensor_parallel.autotp_size", config_.degrees.autotp_size},
                          {"tensor_parallel.tensor_parallel.tp_size", config_.degrees.tp_size}});
    deepspeed_degrees_of(
        "parallel.sequence", config_.parallel.sequence,
        {{"sequence_parallel_size", config_.degrees.sequence_parallel_size},
         {"sequence_parallel.size", config_.degrees.sequence_enabled ? config_.degrees.sequence_size : 1}});
    degrees();
    tensor_layers();
    schedule();
    partition();
    recomputation();
    selective();
    row_tiles();
  }

 private:
  /// Derives the parallel degree `own` from DeepSpeed's keys `others` for the same degree; if several of these keys are
  /// given, they must be equal.
  void deepspeed_degrees_of(std::string_view own, uint32_t& degree,
                            std::initializer_list<std::pair<std::string_view, uint32_t>> others) {
    std::string_view said = given_.value_of(own) != nullptr ? own : std::string_view();
    for (const auto& [key, value] : others) {
      if (value <= 1 || given_.was_refused(key) || given_.was_refused(own)) continue;
      if (!said.empty() && value != degree) {
        error(key, fmt::format("wanted {}, the value of {}, got {}", degree, said, value));
        continue;
      }
      if (said.empty()) derived_.emplace(own, "derived");
      said = key;
      degree = value;
    }
  }

  void degrees() {
    parallel_section& p = config_.parallel;
    if (!p.all) return;
    for (const char* key :
         {"parallel.data", "parallel.pipeline", "parallel.sequence", "parallel.context", "parallel.tensor"})
      if (given_.was_refused(key)) return;
    const std::string shared = (p.sequence == 1 ? "" : fmt::format(" x sequence {}", p.sequence)) +
                               (p.context == 1 ? "" : fmt::format(" x context {}", p.context)) +
                               (p.tensor == 1 ? "" : fmt::format(" x tensor {}", p.tensor));
    const uint64_t others = uint64_t{p.pipeline} * p.sequence * p.context * p.tensor;
    if (given_.value_of("parallel.data") == nullptr) {
      if (*p.all % others != 0 || *p.all / others > most_data_ranks)
        return error(
            "parallel.ranks",
            fmt::format("wanted a multiple of the other degrees, pipeline {}{}, and at most {} times them, got {}",
                        p.pipeline, shared, most_data_ranks, *p.all));
      p.data = static_cast<uint32_t>(*p.all / others);
      derived_.emplace("parallel.data", "derived");
    } else if (*p.all != others * p.data) {
      error("parallel.ranks", fmt::format("wanted the product of the degrees, pipeline {} x data {}{} = {}, got {}",
                                          p.pipeline, p.data, shared, others * p.data, *p.all));
    }
  }

  /// Refuses keys that cannot be combined with selective recomputation, because they need units that are recomputed as
  /// a whole from their inputs.
  void selective() {
    constexpr std::string_view key = "activation_checkpointing.selective",
                               switched = "activation_checkpointing.enabled";
    const auto& kept = config_.activation_checkpointing;
    if (!kept.selective) return;
    if (!kept.enabled) return error(key, fmt::format("wanted {}: true, got false", switched));
    if (kept.partition_activations)
      return error(key, "wanted false with activation_checkpointing.partition_activations, got true");
    if (kept.cpu_checkpointing || config_.offload_activations != offload_device::none)
      error(key, "wanted false with cluster.offload_activations, for which units have to be recomputed, got true");
  }

  /// Parses the keys that choose which layers are split over tensor ranks, above all
  /// `tensor_parallel.partition_config`; each error names its position within that mapping.
  void tensor_layers() {
    constexpr std::string_view key = "tensor_parallel.partition_config", preset = "tensor_parallel.preset_model";
    auto& t = config_.tensor_parallel;
    if (const setting* given = given_.value_of(key); given != nullptr) {
      std::string text = std::move(t.partition.text);
      t.partition = read_partition(*given->value, [&](place at, const std::string& name, std::string what) {
        report_.error(at, fmt::format("{}{}{}", key, name.empty() ? "" : ".", name), std::move(what));
      });
      t.partition.text = std::move(text);
      const auto where = [&](place at) { return fmt::format("{}:{}", report_.sources.at(at.source).name, at.line); };
      t.partition.where = where(t.partition.at);
      for (layer_spec& spec : t.partition.specs) spec.where = where(spec.at);
    }
    constexpr std::string_view rows = "tensor_parallel.injection_policy_tuple",
                               head = "tensor_parallel.vocab_parallel_lm_head";
    const auto idle = [&](std::string_view said, const char* because) {
      report_.warn(given_.where(said), std::string(said), std::string("no effect: ") + because);
    };
    for (const std::string& name : t.rows)
      if (name.empty()) return error(rows, "wanted ends of the names of linear layers, got an empty text");
    if (given_.was_refused("parallel.tensor") || given_.was_refused("tensor_parallel.autotp_size")) return;
    if (t.own_layers && why_ == purpose::job)
      idle("tensor_parallel.replace_with_kernel_inject",
           "the models of Troupe's own families always have fused layers");
    if (!t.rows.empty() && why_ == purpose::job) idle(rows, "it applies only to the modules of a host program");
    if (config_.parallel.tensor > 1) return;
    if (t.chooses()) idle(t.partition.given ? key : preset, "parallel.tensor is 1");
    if (!t.rows.empty() && why_ == purpose::host_job) idle(rows, "parallel.tensor is 1");
    if (t.vocabulary_head) idle(head, "parallel.tensor is 1");
  }

  void schedule() {
    const setting* given = given_.value_of("pipeline.schedule");
    auto& p = config_.pipeline;
    if (given == nullptr || !p.schedule.ends_with(".csv")) return;
    p.schedule_file = (report_.sources.at(given->at.source).folder / p.schedule).lexically_normal();
  }

  void partition() {
    constexpr std::string_view prefix = "type:";
    const auto& partition = config_.pipeline.partition;
    if (!partition.starts_with(prefix)) return;
    if (const auto read = found_in(partition.substr(prefix.size()), {}); !read)
      error("pipeline.partition", "type: " + read.error().text);
  }

  void recomputation() {
    if (config_.pipeline.checkpoint_interval == 0 || config_.activation_checkpointing.enabled) return;
    constexpr std::string_view switched = "activation_checkpointing.enabled";
    if (given_.value_of(switched) != nullptr)
      return error("pipeline.activation_checkpoint_interval",
                   fmt::format("cannot be combined with {}: false; set it to 0, got {}", switched,
                               config_.pipeline.checkpoint_interval));
    config_.activation_checkpointing.enabled = true;
    derived_.emplace(switched, "derived");
  }

  // Refuses `cluster.row_tile_bytes` (logits in tiles of rows) with tensor ranks: between logits and loss these ranks
  // exchange statistics of all rows at once.
  void row_tiles() {
    if (config_.row_tile_bytes == 0 || config_.parallel.tensor == 1 || given_.was_refused("parallel.tensor")) return;
    error("cluster.row_tile_bytes",
          fmt::format("wanted 0 with parallel.tensor above 1, got {}", given_.text_of("cluster.row_tile_bytes")));
  }

  purpose why_;
};

/// Checks the keys for norms and activations that are split over tensor ranks by tokens, and the key for sums that
/// tensor ranks exchange in pieces; the two features cannot be combined.
class norm_checks : key_rules {
 public:
  norm_checks(const settings& given, job_config& config, reporter& report, origins& derived)
      : key_rules(given, config, report, derived) {}

  void all() {
    norms();
    exchange_pieces();
  }

 private:
  void norms() {
    parallel_section& p = config_.parallel;
    const bool given = given_.value_of(own) != nullptr;
    if (!given) derived_.emplace(own, "derived");
    if (config_.activation_checkpointing.partition_activations && idle(*key_named(cut), config_).empty()) {
      if (given && !p.sharded_norms) return error(own, fmt::format("wanted true with {}, got false", cut));
      p.sharded_norms = true;
    }
    if (!p.sharded_norms) return;
    const std::string_view key = given ? own : cut;
    if (p.tensor == 1) return error(key, "requires parallel.tensor above 1, got 1");
    for (const auto& [other, degree] : {std::pair("sequence", p.sequence), std::pair("context", p.context)})
      if (degree > 1)
        return error(key, fmt::format("cannot be combined with parallel.{} {} yet; set one of them to its default",
                                      other, degree));
  }

  /// Refuses sums that are exchanged in pieces if there are no tensor ranks, or if keys that exclude such pieces are
  /// set.
  void exchange_pieces() {
    constexpr std::string_view key = "tensor_parallel.exchange_pieces";
    const parallel_section& p = config_.parallel;
    if (p.exchange_pieces == 1 || given_.was_refused("parallel.tensor")) return;
    if (p.tensor == 1)
      return error(key, fmt::format("wanted 1 without parallel.tensor above 1, got {}", p.exchange_pieces));
    if (p.sharded_norms)
      return error(key, fmt::format("wanted 1 with parallel.sharded_norms, which scatters these sums, got {}",
                                    p.exchange_pieces));
    if (config_.mlp_tile_bytes > 0)
      return error(
          key, fmt::format("wanted 1 with cluster.mlp_tile_bytes, which divides the same products into tiles, got {}",
                           p.exchange_pieces));
  }

  static constexpr std::string_view own = "parallel.sharded_norms",
                                    cut = "activation_checkpointing.partition_activations";
};

}  // namespace

void norm_rules(const settings& given, job_config& config, reporter& report, origins& derived) {
  norm_checks(given, config, report, derived).all();
}

void parallel_rules(const settings& given, job_config& config, reporter& report, origins& derived, purpose why) {
  parallel_checks(given, config, report, derived, why).all();
}

}  // namespace troupe::config
