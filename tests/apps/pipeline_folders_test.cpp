// Tests conversion of models to folders of pipeline parallelism and back: files of other programs, training that
// resumes, and comparison.
#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "formats/safetensors/safetensors.hpp"
#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(pipeline_folders)

using namespace troupe::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const std::string gpt2 =
    "model_type: gpt2, n_layer: 3, n_embd: 16, n_head: 2, n_positions: 8, vocab_size: 256, embd_pdrop: 0, "
    "attn_pdrop: 0, resid_pdrop: 0";
const std::string llama =
    "model_type: llama, num_hidden_layers: 2, hidden_size: 16, num_attention_heads: 2, num_key_value_heads: 1, "
    "intermediate_size: 24, max_position_embeddings: 8, vocab_size: 256";

std::string job_of(const std::string& model) {
  return "model: {" + model + "}\n" +
         "data: {text: corpus.txt}\n"
         "parallel: {data: 2}\n"
         "seed: 7\n"
         "steps: 2\n"
         "train_micro_batch_size_per_gpu: 2\n"
         "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\n"
         "zero_optimization: {stage: 2}\n"
         "checkpoint: {every_steps: 2}\n"
         "output: out\n";
}

/// Returns the loss of step 3 of a run that resumes from the folder `from`.
double next_loss(const command_folder& f, const std::string& from, const std::string& output) {
  const auto r = check_exit(0, f.troupe({"train", "job.yaml", "--json", "--steps", "3", "--resume", from, "--set",
                                         "output=" + output, "--set", "checkpoint.every_steps=0"}));
  std::istringstream lines(r.out);
  for (std::string line; std::getline(lines, line);)
    if (const auto event = json::parse(line); event.contains("step") && event["step"] == 3) return event["loss"];
  return -1;
}

void check_well(const finished& r, const std::string& part = "") {
  BOOST_TEST_REQUIRE(r.code == 0, r.err + r.out);
  BOOST_TEST(has(r.out, part), r.out);
}

void check_refused(const finished& r, int code, const std::string& part) {
  BOOST_TEST(r.code == code, r.err << r.out);
  BOOST_TEST(has(r.err, part), "no '" << part << "' in: " << r.err);
}

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures";

/// Returns the names of the tensors in a file of to-fp32, or in the only file of a folder.
std::vector<std::string> names_in(const fs::path& file) {
  const auto tensors = check_ok(troupe::formats::safetensors_file::open(file));
  std::vector<std::string> out;
  for (const auto& e : tensors->entries()) out.push_back(e.name);
  std::sort(out.begin(), out.end());
  return out;
}

/// Inserts the tensor-parallel rank into a file name. DeepSpeed omits it if there is only one rank, and finds the files
/// in both forms.
std::string with_rank(std::string name) {
  const auto at = name.starts_with("layer_") ? name.find("-model_states") : std::string::npos;
  return at == std::string::npos ? name : name.insert(at, "-model_00");
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_model_that_was_cut_into_stages_is_the_same_model) {
  for (const auto& model : {gpt2, gpt2 + ", tie_word_embeddings: false", llama + ", tie_word_embeddings: true", llama})
    BOOST_TEST_CONTEXT(model) {
      const command_folder f(job_of(model));
      check_well(f.troupe({"train", "job.yaml", "--quiet"}));
      const std::string ours = "out/checkpoints";
      check_well(f.troupe({"checkpoint", "reshape", ours, "stages", "--pp", "2", "--quiet"}));
      check_well(f.troupe({"checkpoint", "to-hf", ours, "direct", "--quiet"}));
      check_well(f.troupe({"checkpoint", "to-hf", "stages", "through", "--quiet"}));
      for (const char* file : {"config.json", "model.safetensors"})
        BOOST_TEST(
            (scratch_folder::read(f.folder / "direct" / file) == scratch_folder::read(f.folder / "through" / file)),
            file);
      const auto tensors = names_in(f.folder / "direct/model.safetensors").size();
      check_well(f.troupe({"checkpoint", "diff", ours, "stages"}), fmt::format("{} tensors compared, ", 3 * tensors));
      check_well(f.troupe({"checkpoint", "diff", "stages", ours}), ": equal");
      BOOST_TEST(next_loss(f, "stages", "one") == next_loss(f, ours, "two"));
    }
}

BOOST_AUTO_TEST_CASE(every_command_gives_the_same_of_a_run_in_stages_as_of_one_that_is_whole) {
  const command_folder f(job_of(gpt2) +
                         "gradient_accumulation_steps: 2\ngradient_order: per_step\ntied_gradients: per_use\n");
  for (const char* folder : {"a", "b"}) fs::create_directories(f.folder / folder);
  check_well(f.troupe({"train", "job.yaml", "--quiet", "--export", "a/exported"}));
  check_well(f.troupe({"train", "job.yaml", "--quiet", "--export", "b/exported", "--set", "output=stages", "--set",
                       "parallel.pipeline=2", "--set", "pipeline={schedule: zb_v, chunks: 2}", "--set",
                       "zero_optimization.stage=3"}));
  for (const char* file : {"config.json", "model.safetensors"}) BOOST_TEST_CONTEXT(file)
  BOOST_TEST(
      (scratch_folder::read(f.folder / "a/exported" / file) == scratch_folder::read(f.folder / "b/exported" / file)));
  const std::string whole = "out/checkpoints", stages = "stages/checkpoints";
  const auto inspected = json::parse(f.troupe({"checkpoint", "inspect", stages, "--json"}).out);
  BOOST_TEST(inspected["files"].size() == 4U);
  const auto tensors = inspected["tensors"].size();
  BOOST_TEST(tensors == 3 * 40U);  // a tied weight is counted once
  check_well(f.troupe({"checkpoint", "verify", stages}), fmt::format("good: {} tensors", tensors));
  check_well(f.troupe({"checkpoint", "diff", whole, stages}), fmt::format("{} tensors compared, ", tensors));
  const std::vector<std::vector<std::string>> commands = {{"to-hf"},
                                                          {"to-fp32"},
                                                          {"to-universal"},
                                                          {"to-deepspeed", "--stage", "1", "--ranks", "2"},
                                                          {"reshape", "--pp", "2", "--partition", "0,3"}};
  for (const auto& command : commands) BOOST_TEST_CONTEXT(command.front()) {
      for (const auto& [from, to] : {std::pair{whole, std::string("a/")}, {stages, "b/"}}) {
        std::vector<std::string> line{"checkpoint", command.front(), from, to + command.front()};
        line.insert(line.end(), command.begin() + 1, command.end());
        check_well(f.troupe(line));
      }
      check_well(f.troupe({"checkpoint", "diff", "a/" + command.front(), "b/" + command.front()}), ": equal");
      check_well(f.troupe({"checkpoint", "diff", "b/" + command.front(), stages}), ": equal");
    }
  BOOST_TEST(fs::exists(f.folder / "b/reshape/global_step2/layer_04-model_00-model_states.pt"));
  const double wanted = next_loss(f, whole, "next");
  for (const std::string from : {"stages/checkpoints", "b/to-universal", "b/reshape"})
    BOOST_TEST(next_loss(f, from, "next_of_" + fs::path(from).filename().string()) == wanted, from);
  check_refused(f.troupe({"checkpoint", "reshape", stages, "none", "--pp", "2", "--partition", "0,2,4"}), 2,
                "partition: wanted the first layer of each of 2 stages, ascending from 0 on, got 0,2,4");
}

BOOST_AUTO_TEST_CASE(layers_that_deepspeed_wrote_get_names_by_their_model_or_by_a_file) {
  const command_folder f;
  const auto theirs = (fixtures / "deepspeed_gpt2/pipeline_fp32").string();
  f.folder.write(
      "config.json",
      R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 8, "vocab_size": 128})");
  const auto bare = check_exit(0, f.troupe({"checkpoint", "to-fp32", theirs, "bare.safetensors"}));
  BOOST_TEST(has(bare.err, "the tensors keep the names of the pipeline's layers"), bare.err);
  BOOST_TEST(names_in(f.folder / "bare.safetensors").front() == "1.weight");

  check_well(f.troupe({"checkpoint", "to-hf", theirs, "hf", "--model-config", "config.json"}));
  const auto wanted = names_in(f.folder / "hf/model.safetensors");
  BOOST_TEST(wanted.size() == 16U);
  BOOST_TEST(wanted.front() == "transformer.h.0.attn.c_attn.bias");
  check_well(f.troupe({"checkpoint", "to-fp32", theirs, "by_model.safetensors", "--model-config", "config.json"}));
  check_well(f.troupe({"checkpoint", "diff", theirs, "hf"}), "16 tensors compared, ");
  check_well(f.troupe({"checkpoint", "diff", "hf", theirs}), "16 tensors compared, ");

  f.folder.write("names.yaml",
                 "layers: {1: transformer.wpe, 2: 'transformer.h.{layer-2}.', 3: transformer.ln_f}\n"
                 "names:\n  tied_modules\\.embed\\.(.*): transformer.wte.\\1\n");
  check_well(f.troupe({"checkpoint", "to-fp32", theirs, "by_map.safetensors", "--map", "names.yaml"}));
  for (const char* file : {"by_model.safetensors", "by_map.safetensors"})
    BOOST_TEST((names_in(f.folder / file) == wanted), file);
  BOOST_TEST((scratch_folder::read(f.folder / "by_map.safetensors") ==
              scratch_folder::read(f.folder / "by_model.safetensors")));
  // The folders are converted to the files and keys that DeepSpeed's own loader expects.
  f.folder.write("ds.json", R"({"train_batch_size": 6, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}})");
  check_well(f.troupe({"checkpoint", "to-deepspeed", theirs, "whole", "--map", "names.yaml", "--job", "ds.json"}));
  check_well(f.troupe({"checkpoint", "reshape", "whole", "again", "--pp", "2", "--stage", "1", "--map-back",
                       "names.yaml", "--job", "ds.json"}));
  check_well(f.troupe({"checkpoint", "diff", theirs, "again"}), "48 tensors compared, ");
  for (const auto& entry : fs::directory_iterator(theirs + "/global_step3"))
    BOOST_TEST(fs::exists(f.folder / "again/global_step3" / with_rank(entry.path().filename())), entry.path().string());
  check_well(f.troupe({"checkpoint", "inspect", theirs, "--map", "names.yaml"}), "    wpe\n      weight  [8, 8]\n");
}

BOOST_AUTO_TEST_CASE(unknown_names_are_refused_with_those_that_are_wanted) {
  const command_folder f;
  const auto theirs = (fixtures / "deepspeed_gpt2/pipeline_fp32").string();
  const std::string keys = R"("n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 9, "vocab_size": 128})";
  f.folder.write("other.json", R"({"model_type": "gpt2", )" + keys);
  f.folder.write("unknown.json", R"({"model_type": "own", )" + keys);
  const std::string not_known = "is a pipeline with unknown names of layers: wanted ";
  check_refused(f.troupe({"checkpoint", "to-hf", theirs, "hf", "--model-config", "other.json"}), 2,
                not_known + "transformer.wte.weight, transformer.wpe.weight, transformer.h.0.ln_1.weight");
  check_refused(f.troupe({"checkpoint", "to-hf", theirs, "hf", "--model-config", "unknown.json"}), 2,
                not_known + "the names of a model, it has tied_modules.embed.weight, 1.weight, ");
  const auto others = (fixtures / "deepspeed/stage2_fp32_legacy").string();
  check_refused(f.troupe({"checkpoint", "to-hf", others, "hf", "--model-config", "other.json"}), 2,
                "parameters that its model does not have, such as ");
  BOOST_TEST(!fs::exists(f.folder / "hf"));
  check_refused(f.troupe({"checkpoint", "diff", theirs, others}), 1, "no tensor of one has its name in the other: '");
  check_refused(f.troupe({"train", "job.yaml", "--resume", theirs}), 1, not_known + "transformer.wte.weight");
  for (const auto& from : {theirs, others})
    check_refused(f.troupe({"train", "job.yaml", "--resume", from, "--no-load-strict", "--load-module-only"}), 1,
                  "no parameter of this model is in the checkpoint: wanted transformer.wte.weight, ");
  f.folder.write("broken.yaml", "names: {'(': a}\n");
  check_refused(f.troupe({"train", "job.yaml", "--resume", theirs, "--map", "broken.yaml"}), 2,
                "broken.yaml': line 1: wanted an RE2 pattern");
  f.folder.write("useless.yaml", "names: {a: b}\n");
  const auto useless = f.troupe({"checkpoint", "inspect", theirs, "--map", "useless.yaml"});
  BOOST_TEST(has(useless.err, "no rule of 'useless.yaml' matches a tensor of '"), useless.err);
}

BOOST_AUTO_TEST_SUITE_END()
