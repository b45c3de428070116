// Tests checkpoints of runs with tensor parallelism: every command accepts them, they can be converted to other
// programs' folders with the same number of ranks, and jobs of any tensor-parallel degree resume from either.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/apps/topology.hpp"

BOOST_AUTO_TEST_SUITE(tensor_folders)

using namespace troupe::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string gpt2 =
    "model_type: gpt2, n_layer: 2, n_embd: 16, n_head: 4, n_positions: 8, vocab_size: 250, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0";
/// A model of six query heads and three key-value heads; of two tensor-parallel ranks the first has two key-value heads
/// and the second has one.
const std::string llama =
    "model_type: llama, num_hidden_layers: 2, hidden_size: 24, num_attention_heads: 6, num_key_value_heads: 3, "
    "intermediate_size: 21, max_position_embeddings: 8, vocab_size: 250";

std::string job_of(const std::string& model) {
  return "model: {" + model + "}\n" +
         "data: {text: corpus.txt, tokenizer: bytes}\n"
         "parallel: {data: 2, tensor: 2}\n"
         "seed: 7\n"
         "steps: 2\n"
         "train_micro_batch_size_per_gpu: 2\n"
         "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
         "zero_optimization: {stage: 2}\n"
         "checkpoint: {every_steps: 2}\n"
         "output: out\n";
}

/// Returns the loss of step 3 of a run that resumes from the folder `from`.
double next_loss(const command_folder& f, const std::string& from, int tensor) {
  const auto output = fmt::format("next_of_{}{}", from, tensor);
  const auto r = check_exit(
      0, f.troupe({"train", "job.yaml", "--json", "--steps", "3", "--resume", from, "--set", "output=" + output,
                   "--set", "checkpoint.every_steps=0", "--set", fmt::format("parallel.tensor={}", tensor)}));
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);)
    if (const auto event = json::parse(line); event.contains("step") && event["step"] == 3) return event["loss"];
  return -1;
}

void check_well(const finished& r, const std::string& part = "") {
  BOOST_TEST_REQUIRE(r.code == 0, r.err + r.out);
  BOOST_TEST(has(r.out, part), r.out);
}

const std::string ours = "out/checkpoints";

void check_shown(const command_folder& f) {
  const auto shown = json::parse(f.troupe({"checkpoint", "inspect", ours, "--json"}).out);
  size_t cut = 0;
  for (const auto& t : shown["tensors"]) {
    cut += t.contains("cut");
    std::map<std::string, size_t> of_rank;
    for (const auto& p : t["pieces"]) BOOST_TEST(++of_rank[p["file"]] <= 4U, t["name"]);
  }
  BOOST_TEST(cut > shown["tensors"].size() / 3);
  BOOST_TEST(shown["files"].size() == 4U);
  check_well(f.troupe({"checkpoint", "inspect", ours}), " of shares along dimension 1 of ");
  check_well(f.troupe({"checkpoint", "verify", ours}), fmt::format("good: {} tensors", shown["tensors"].size()));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_command_takes_a_checkpoint_of_tensor_ranks) {
  for (const auto& model : {gpt2, llama}) BOOST_TEST_CONTEXT(model) {
      const command_folder f(job_of(model));
      check_well(f.troupe({"train", "job.yaml", "--quiet", "--export", "exported"}));
      check_shown(f);
      const std::vector<std::vector<std::string>> commands = {{"to-hf"},
                                                              {"to-fp32"},
                                                              {"to-universal"},
                                                              {"to-deepspeed", "--stage", "1", "--ranks", "2"},
                                                              {"reshape", "--pp", "2"}};
      for (const auto& command : commands) BOOST_TEST_CONTEXT(command.front()) {
          std::vector<std::string> line{"checkpoint", command.front(), ours, command.front()};
          line.insert(line.end(), command.begin() + 1, command.end());
          check_well(f.troupe(line));
          check_well(f.troupe({"checkpoint", "diff", ours, command.front()}), " tensors compared, ");
        }
      // The folder `exported` contains the weights that the ranks had in memory.
      check_well(f.troupe({"checkpoint", "diff", "exported", "to-hf"}), ": equal");
      const double wanted = next_loss(f, ours, 2);
      for (const std::string from : {"to-universal", "to-deepspeed", "reshape"})
        BOOST_TEST(next_loss(f, from, 2) == wanted, from);
      for (const int tensor : {1, 3}) BOOST_TEST(std::abs(next_loss(f, ours, tensor) / wanted - 1) < 1e-5);
    }
}

BOOST_AUTO_TEST_CASE(folders_of_any_number_of_tensor_ranks_come_out_and_in) {
  for (const auto& model : {gpt2, llama}) BOOST_TEST_CONTEXT(model) {
      const command_folder f(job_of(model));
      check_well(f.troupe({"train", "job.yaml", "--quiet"}));
      const double wanted = next_loss(f, ours, 2);
      for (const std::string ranks : {"2", "3", "4"}) BOOST_TEST_CONTEXT(ranks << " ranks") {
          const std::string folder = "ranks" + ranks;
          check_well(f.troupe({"checkpoint", "reshape", ours, folder, "--tp", ranks, "--stage", "1", "--dp", "2"}));
          BOOST_TEST(fs::exists(f.folder / folder / "global_step2" /
                                fmt::format("mp_rank_0{}_model_states.pt", std::stoi(ranks) - 1)));
          check_well(f.troupe({"checkpoint", "diff", ours, folder}), ": equal");
          BOOST_TEST(next_loss(f, folder, 2) == wanted);
        }
      BOOST_TEST(std::abs(next_loss(f, "ranks2", 3) / wanted - 1) < 1e-5);
    }
}

BOOST_AUTO_TEST_SUITE_END()
