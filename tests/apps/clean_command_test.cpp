// Tests `troupe compress --clean`: the model of a run with pruning and quantisation becomes permanently smaller, and
// its losses stay the same.
#include <cmath>
#include <nlohmann/json.hpp>

#include "checkpoint/native/manifest_file.hpp"
#include "storage/files/atomic_file.hpp"
#include "storage/files/file_system.hpp"
#include "tests/apps/topology.hpp"
#include "tests/formats/tensors.hpp"

BOOST_AUTO_TEST_SUITE(clean_command)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;
using json = nlohmann::json;

namespace {

const std::string gpt2 =
    "model: {model_type: gpt2, n_layer: 2, n_embd: 32, n_head: 4, n_positions: 32, vocab_size: 256, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0}\n";
const std::string llama =
    "model: {model_type: llama, num_hidden_layers: 2, hidden_size: 32, intermediate_size: 48, num_attention_heads: 4, "
    "num_key_value_heads: 4, vocab_size: 256, max_position_embeddings: 32}\n";
const std::string training =
    "data: {text: corpus.txt, validation_fraction: 0.1}\n"
    "parallel: {data: 2}\n"
    "steps: 4\n"
    "train_micro_batch_size_per_gpu: 2\n"
    "optimizer: {type: AdamW, params: {lr: 1.0e-2}}\n"
    "zero_optimization: {stage: 2}\n"
    "evaluation: {every_steps: 1}\n";

std::string technique(const std::string& name, const std::string& shared, const std::string& group) {
  return "  " + name + ": {shared_parameters: {enabled: true, " + shared + "}, different_groups: {all: {" + group +
         "}}}\n";
}

struct run_folder {
  command_folder f;
  std::string model;

  run_folder(std::string m, const std::string& techniques)
      : f(m + training +
          "checkpoint: {every_steps: 4}\noutput: run\n"
          "compression_training:\n" +
          techniques),
        model(std::move(m)) {}

  /// Returns the last validation loss that a run reports.
  [[nodiscard]] double loss(const std::vector<std::string>& command) const {
    const auto r = check_exit(0, f.troupe(command));
    double out = NAN;
    size_t begin = 0;
    for (size_t end; (end = r.out.find('\n', begin)) != std::string::npos; begin = end + 1) {
      const auto line = json::parse(r.out.substr(begin, end - begin), nullptr, false);
      if (line.is_object() && line.contains("validation_loss") && line["validation_loss"].is_number())
        out = line["validation_loss"];
    }
    return out;
  }
  /// Returns the loss of the cleaned weights, measured by a run of one step with learning rate 0.
  [[nodiscard]] double loss_of_cleaned(const std::string& type = "") const {
    f.folder.write("plain.yaml", "model: {path: cleaned}\n" + training + "output: plain\n" + type);
    return loss({"train", "plain.yaml", "--json", "--resume", "cleaned", "--load-module-only", "--steps", "1", "--set",
                 "optimizer.params.lr=0"});
  }
  void check(const std::string& key, uint64_t width) const {
    const double trained = loss({"train", "job.yaml", "--json"});
    check_exit(0, f.troupe({"compress", "run/checkpoints", "cleaned", "--clean"}));
    BOOST_TEST(std::abs(loss_of_cleaned() / trained - 1) <= 1e-6);
    const auto text =
        check_ok(storage::read_small_file(storage::real_files(), f.folder / "cleaned/config.json", 1 << 20));
    if (!key.empty()) BOOST_TEST(json::parse(*text)[key] == width);
    // The cleaned checkpoint also contains the optimizer states, so a run can resume at its step.
    const auto more =
        check_exit(0, f.troupe({"train", "plain.yaml", "--json", "--fresh", "--resume", "cleaned", "--steps", "6"}));
    BOOST_TEST(has(more.out, "\"step\":6"), more.out);
    const auto again = check_exit(2, f.troupe({"compress", "cleaned", "twice", "--clean"}));
    BOOST_TEST(has(again.err, "does not need cleaning: its run neither prunes nor quantises weights"), again.err);
    BOOST_TEST(!fs::exists(f.folder / "twice"));
  }
};

}  // namespace

BOOST_AUTO_TEST_CASE(masks_and_cut_rows_leave_the_losses_of_a_gpt2_and_training_goes_on) {
  const run_folder run(
      gpt2, technique("sparse_pruning", "schedule_offset: 1",
                      "params: {dense_ratio: 0.6}, modules: ['attn\\.c_attn', 'mlp\\.c_fc']") +
                technique("row_pruning", "schedule_offset: 2",
                          "params: {dense_ratio: 0.5}, modules: ['mlp\\.c_fc'], related_modules: [['mlp\\.c_proj']]") +
                technique("weight_quantization", "quantize_weight_in_forward: true, quantize_groups: 4",
                          "params: {start_bits: 8, target_bits: 6}, modules: ['mlp', 'attn']"));
  run.check("n_inner", 64);
}

BOOST_AUTO_TEST_CASE(in_bf16_weights_are_on_the_grid_that_they_were_multiplied_with) {
  const std::string bf16 = "bf16: {enabled: true}\n";
  const run_folder run(
      gpt2, technique("weight_quantization", "quantize_weight_in_forward: true, quantize_groups: 4",
                      "params: {start_bits: 8, target_bits: 4}, modules: ['mlp', 'attn']") +
                technique("row_pruning", "schedule_offset: 0", "params: {dense_ratio: 0.5}, modules: ['mlp\\.c_fc']") +
                bf16);
  const double trained = run.loss({"train", "job.yaml", "--json"});
  BOOST_TEST_REQUIRE(run.f.troupe({"compress", "run/checkpoints", "cleaned", "--clean"}).code == 0);
  BOOST_TEST(run.loss_of_cleaned(bf16) == trained);
}

BOOST_AUTO_TEST_CASE(learned_rows_and_heads_are_cut_out_of_a_llama) {
  const run_folder run(
      llama,
      technique("row_pruning", "schedule_offset: 0, method: topk",
                "params: {dense_ratio: 0.5}, modules: [gate_proj], related_modules: [[up_proj, down_proj]]") +
          technique("head_pruning", "schedule_offset: 0, method: topk, num_heads: 4",
                    "params: {dense_ratio: 0.5}, modules: [o_proj], related_modules: [[q_proj, k_proj, v_proj]]"));
  run.check("intermediate_size", 24);
  const auto with_scores =
      check_exit(2, run.f.troupe({"compress", "run/checkpoints", "small.gguf", "--to", "gguf:q8_0"}));
  BOOST_TEST(has(with_scores.err, "`troupe compress` with --clean makes the masks permanent"), with_scores.err);
}

BOOST_AUTO_TEST_CASE(what_tensor_ranks_had_shares_of_is_made_permanent_as_a_whole) {
  const run_folder run(
      llama,
      technique("sparse_pruning", "schedule_offset: 1, method: l1", "params: {dense_ratio: 0.6}, modules: [proj]") +
          technique("row_pruning", "schedule_offset: 0, method: topk",
                    "params: {dense_ratio: 0.5}, modules: [gate_proj], related_modules: [[up_proj, down_proj]]") +
          technique("weight_quantization", "quantize_weight_in_forward: true, quantize_groups: 2",
                    "params: {start_bits: 8, target_bits: 6}, modules: [proj]"));
  const double trained = run.loss({"train", "job.yaml", "--json", "--set", "parallel.tensor=2"});
  check_exit(0, run.f.troupe({"compress", "run/checkpoints", "cleaned", "--clean"}));
  BOOST_TEST(std::abs(run.loss_of_cleaned() / trained - 1) <= 1e-6);
}

BOOST_AUTO_TEST_CASE(what_was_trained_on_a_grid_is_stored_bit_for_bit) {
  const run_folder run(llama, technique("weight_quantization", "quantize_weight_in_forward: true, quantize_groups: 32",
                                        "params: {start_bits: 8, target_bits: 4}, modules: ['proj']"));
  BOOST_TEST_REQUIRE(run.f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  const auto exact = check_exit(0, run.f.troupe({"compress", "run/checkpoints", "small", "--clean", "--to",
                                                 "compressed-tensors:int4", "--group", "16", "--dtype", "fp32"}));
  BOOST_TEST(has(exact.out, "stored values are the trained ones bit for bit\n"), exact.out);
  const auto rounded = check_exit(0, run.f.troupe({"compress", "run/checkpoints", "smaller", "--clean", "--to",
                                                   "compressed-tensors:int3", "--group", "16", "--dtype", "fp32"}));
  BOOST_TEST(has(rounded.out, "stored values differ from the trained ones by at most "), rounded.out);
}

BOOST_AUTO_TEST_CASE(weights_that_are_written_without_the_masks_of_their_run_are_named) {
  const run_folder run(
      llama, technique("sparse_pruning", "schedule_offset: 1", "params: {dense_ratio: 0.6}, modules: [q_proj]") +
                 technique("row_pruning", "schedule_offset: 9", "params: {dense_ratio: 0.5}, modules: [up_proj]") +
                 technique("weight_quantization", "quantize_weight_in_forward: true, quantize_groups: 4",
                           "params: {start_bits: 8, target_bits: 4}, modules: [down_proj]"));
  BOOST_TEST_REQUIRE(run.f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  const std::string named =
      "its run computes with weight_quantization, sparse_pruning, and the weights are written without: `troupe "
      "compress` with --clean";
  const auto warns = [&](const std::vector<std::string>& command) {
    const auto r = check_exit(0, run.f.troupe(command));
    return has(r.err, named);
  };
  BOOST_TEST(warns({"checkpoint", "to-hf", "run/checkpoints", "hf"}));
  BOOST_TEST(warns({"checkpoint", "to-gguf", "run/checkpoints", "all.gguf"}));
  BOOST_TEST(warns({"compress", "run/checkpoints", "few.gguf", "--to", "gguf:q8_0", "--validate", "none"}));
  BOOST_TEST(!warns({"compress", "run/checkpoints", "cleaned", "--clean"}));
  BOOST_TEST(!warns({"checkpoint", "to-hf", "cleaned", "cleaned-hf"}));
}

BOOST_AUTO_TEST_CASE(what_a_family_cannot_say_and_what_was_not_compressed_is_refused) {
  const run_folder heads(
      gpt2, technique("head_pruning", "schedule_offset: 0, method: topk, num_heads: 4",
                      "params: {dense_ratio: 0.5}, modules: ['attn\\.c_proj'], related_modules: [['attn\\.c_attn']]"));
  BOOST_TEST_REQUIRE(heads.f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  const auto r = check_exit(2, heads.f.troupe({"compress", "run/checkpoints", "cleaned", "--clean"}));
  BOOST_TEST(has(r.err, "config.json of model_type 'gpt2' cannot describe fewer heads"), r.err);
  BOOST_TEST(!fs::exists(heads.f.folder / "cleaned"));
  const run_folder late(
      gpt2, technique("sparse_pruning", "schedule_offset: 9", "params: {dense_ratio: 0.6}, modules: [attn]"));
  BOOST_TEST_REQUIRE(late.f.troupe({"train", "job.yaml", "--quiet"}).code == 0);
  const auto nothing = check_exit(2, late.f.troupe({"compress", "run/checkpoints", "cleaned", "--clean"}));
  BOOST_TEST(has(nothing.err, "its run had not compressed anything at its step 4"), nothing.err);
}

BOOST_AUTO_TEST_CASE(a_checkpoint_whose_run_has_an_unreadable_configuration_is_refused_by_name) {
  const run_folder run(llama, technique("weight_quantization", "quantize_weight_in_forward: true, quantize_groups: 4",
                                        "params: {start_bits: 8, target_bits: 8}, modules: ['mlp']"));
  (void)run.loss({"train", "job.yaml", "--json"});
  const fs::path saved = run.f.folder / "run/checkpoints/step-00000004";
  auto& files = storage::real_files();
  auto there = check_ok(checkpoint::read_manifest(files, saved));
  there->content.run.config = "steps: 4\nparallel: [\n";
  fs::remove(saved / "manifest.json");
  BOOST_TEST_REQUIRE(checkpoint::write_manifest(files, saved, there->content).has_value());
  const auto refused = [&](const std::vector<std::string>& command, const std::string& why) {
    const auto r = check_exit(2, run.f.troupe(command));
    BOOST_TEST(has(r.err, why), r.err);
    BOOST_TEST(has(r.err, "step-00000004"), r.err);
  };
  refused({"compress", saved.string(), "cleaned", "--clean"}, "not readable as YAML");
  refused({"init", "--from", saved.string(), "--text", "corpus.txt", "--steps", "4", "new.yaml"},
          "the configuration of its run cannot be read: line 3");
}

BOOST_AUTO_TEST_SUITE_END()
