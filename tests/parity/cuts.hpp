// The cuts of a job for tests of checkpoints that do not depend on how the job is sharded: which there are, sessions of
// them, their tensors, and what is saved.
#pragma once

#include <fmt/format.h>

#include <filesystem>
#include <map>

#include "actors/session/state_access.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "checkpoint/native/native_source.hpp"
#include "formats/report/diff.hpp"
#include "tests/parity/run_result.hpp"

namespace troupe::tests {

namespace fs = std::filesystem;

/// Steps before a checkpoint and after it.
constexpr uint64_t before = 2, after = 2;

/// A small model in which every matrix spans several blocks of 1,024 elements, and the embedding is tied to the head.
inline const std::string gpt2 =
    "model: {model_type: gpt2, n_layer: 4, n_embd: 32, n_head: 4, n_positions: 16, vocab_size: 96, embd_pdrop: 0.1, "
    "attn_pdrop: 0.1, resid_pdrop: 0.1}\n";
inline const std::string llama =
    "model: {model_type: llama, num_hidden_layers: 4, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
    "intermediate_size: 64, max_position_embeddings: 16, vocab_size: 96}\n";
inline const std::string gemma2 =
    "model: {model_type: gemma2, num_hidden_layers: 4, hidden_size: 32, num_attention_heads: 4, "
    "num_key_value_heads: 2, head_dim: 8, intermediate_size: 64, max_position_embeddings: 16, vocab_size: 96}\n";
inline const std::string zero = "zero_optimization.";

struct cut {
  std::string name;
  int data = 2;  ///< data-parallel degree; a step has eight samples at any degree
  settings set;
  std::string tied = "per_use";
  int tensor = 1;
  std::string columns = "parallel.sequence=1";  ///< sequence or context degree

  [[nodiscard]] settings all() const {
    const int micro = data == 4 ? 1 : 2;
    return settings{"data.sequence_length=12",
                    "gradient_order=per_step",
                    fmt::format("parallel.data={}", data),
                    fmt::format("parallel.tensor={}", tensor),
                    columns,
                    fmt::format("train_micro_batch_size_per_gpu={}", micro),
                    fmt::format("gradient_accumulation_steps={}", 8 / data / micro),
                    "tied_gradients=" + tied,
                    zero + "sub_group_size=4096",
                    zero + "reduce_bucket_size=8192",
                    zero + "stage3_param_persistence_threshold=100",
                    zero + "stage3_gather_16bit_weights_on_model_save=true"} +
           set;
  }
  /// Returns true if a step of both cuts, from the same states, has the same bits.
  [[nodiscard]] bool adds_alike(const cut& x) const {
    return data == x.data && tied == x.tied && tensor == x.tensor && columns == x.columns;
  }
};

inline settings stage(int n) { return {fmt::format("{}stage={}", zero, n)}; }
inline settings pipeline(int ranks, const std::string& schedule, int chunks = 1) {
  return {fmt::format("parallel.pipeline={}", ranks), "pipeline.schedule=" + schedule,
          fmt::format("pipeline.chunks={}", chunks)};
}
inline settings in_files(const small_job& job, const std::string& folder) {
  const std::string nvme = "device: nvme, nvme_path: " + (job.folder() / folder).string();
  return {zero + "offload_optimizer={" + nvme + "}", zero + "offload_param={" + nvme + ", max_in_cpu: 4096}"};
}

/// Returns different cuts of a job. `folder` is for swap files; two sessions that are open at the same time need
/// different folders.
inline std::vector<cut> cuts(const small_job& job, const std::string& folder = "swap") {
  return {{"uncut", 2, stage(2)},
          {"pipeline 2", 2, pipeline(2, "1f1b") + stage(3)},
          {"pipeline 3", 1, pipeline(3, "zb_h1") + stage(1)},
          {"chunks 2", 2, pipeline(2, "interleaved", 2) + stage(1)},
          {"V", 1, pipeline(2, "zb_v", 2) + stage(3)},
          {"replicate x shard", 4, pipeline(2, "gpipe") + stage(2) + settings{"parallel.shard=2"}},
          {"hpZ", 4, stage(3) + settings{zero + "zero_hpz_partition_size=2"}},
          {"in files", 2, pipeline(2, "1f1b") + stage(3) + in_files(job, folder)},
          {"stage 0", 2, pipeline(2, "zb_h1") + stage(0)},
          {"ties in one bucket", 2, stage(3), "in_bucket"}};
}

/// Returns cuts with tensor degrees that do not divide the number of heads: the shards differ in size, and the last one
/// may be empty.
inline std::vector<cut> tensor_cuts(const small_job& job, const std::string& folder = "swap") {
  const std::string one = "per_use";
  return {{"uncut", 2, stage(2)},
          {"context 2 x tensor 2", 1, stage(3), one, 2, "parallel.context=2"},
          {"sequence 2 x tensor 2", 1, stage(2), one, 2, "parallel.sequence=2"},
          {"tensor 2", 2, stage(0), one, 2},
          {"tensor 2, stage 3", 2, stage(3), one, 2},
          {"tensor 3, stage 3", 1, stage(3), one, 3},
          {"tensor 4", 1, stage(2), one, 4},
          {"pipeline 2 x tensor 2", 2, pipeline(2, "1f1b") + stage(1), one, 2},
          {"V x tensor 2", 1, pipeline(2, "zb_v", 2) + stage(3), one, 2},
          {"tensor 2, replicate x shard", 4, stage(2) + settings{"parallel.shard=2"}, one, 2},
          {"tensor 3 in files", 2, stage(3) + in_files(job, folder), one, 3},
          {"tensor 2, ties in one bucket", 2, stage(3), "in_bucket", 2}};
}

inline std::unique_ptr<actors::session> open(const small_job& job, const settings& set, const fs::path& resume = {}) {
  auto s = actors::session::open({.config = job.config(set), .resume = resume});
  if (!s) throw std::runtime_error(s.error().text);
  return std::move(*s);
}

template <class T>
T sound(core::result<T> x) {
  if (!x) throw std::runtime_error(x.error().text);
  return std::move(*x);
}
inline void sound(core::result<void> x) {
  if (!x) throw std::runtime_error(x.error().text);
}

/// Returns weights and moments by parameter name and kind; checks that copies equal their originals.
inline std::map<std::string, std::vector<float>> tensors_of(const actors::session& s) {
  std::map<std::string, std::vector<float>> out;
  const auto& table = s.table();
  for (uint32_t q = 0; q < table.parameters.size(); ++q) {
    const std::string& name = table.parameters[table.original(q)].name;
    for (const auto& [part, values] :
         {std::pair{" weight", parameter_of(s, q)}, std::pair{" first", moment_of(s, q, 0)},
          std::pair{" second", moment_of(s, q, 1)}}) {
      const auto [at, fresh] = out.emplace(name + part, values);
      if (!fresh) BOOST_TEST(same_bits({at->second}, {values}), "a copy of " << name << part << " differs");
    }
  }
  return out;
}

template <class A>
void check_equal(const A& got, const A& wanted) {
  BOOST_TEST(got.size() == wanted.size());
  for (const auto& [name, values] : wanted)
    BOOST_TEST((got.contains(name) && same_bits({got.at(name)}, {values})), name << " differs");
}

inline std::vector<double> losses_of(actors::session& s, uint64_t steps) {
  std::vector<double> out;
  for (uint64_t i = 0; i < steps; ++i) out.push_back(step_of(s).loss);
  return out;
}

struct saved_cut {
  fs::path folder;
  std::map<std::string, std::vector<float>> tensors;
  std::vector<double> next;
};

inline saved_cut train_and_save(const small_job& job, const cut& c, const settings& common) {
  saved_cut out;
  const auto s = open(job, c.all() + common);
  losses_of(*s, before);
  out.tensors = tensors_of(*s);
  out.folder = sound(s->save({.root = job.folder() / ("saved " + c.name)}));
  out.next = losses_of(*s, after);
  return out;
}

/// Checks that a checkpoint contains every element of the model exactly once, and no copies of tied parameters.
inline void check_folder(const saved_cut& saved, const actors::session& s) {
  const auto report = sound(checkpoint::verify_checkpoint(storage::real_files(), saved.folder));
  BOOST_TEST(report.damages == 0U);
  uint64_t elements = 0, tensors = 0;
  for (uint32_t q = 0; q < s.table().parameters.size(); ++q) {
    const uint64_t of_each =
        s.table().parameters[q].is_copy() ? 0 : 1 + s.training_plan(0).options().update_of(q).moments;
    elements += of_each * s.table().parameters[q].numel();
    tensors += of_each;
  }
  BOOST_TEST(report.bytes == elements * sizeof(float));
  const auto source = sound(checkpoint::open_source(saved.folder));
  BOOST_TEST(source.tensors.size() == tensors);
  for (const auto& t : source.tensors) BOOST_TEST(t.name.find(' ') == std::string::npos, t.name);
}

inline void check_same_files(const fs::path& a, const fs::path& b) {
  const auto report = sound(formats::diff_sources(storage::real_files(), sound(checkpoint::open_source(a)),
                                                  sound(checkpoint::open_source(b))));
  BOOST_TEST(report.tensors > 0U);
  for (const auto& d : report.differences) BOOST_TEST(false, d.text);
  BOOST_TEST(report.left_out_moments + report.left_out_weights == 0U);
}

}  // namespace troupe::tests
