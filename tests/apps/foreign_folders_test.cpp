// `troupe checkpoint` on folders that other programs saved: what is said of them, and their names, printed as a file
// for
// `--map` and given back.
#include <nlohmann/json.hpp>

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(foreign_folders)

using namespace troupe::tests;
using nlohmann::json;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/checkpoint/fixtures";

/// Name, kind and moment of every tensor.
std::vector<std::string> names_in(const json& inspected) {
  std::vector<std::string> out;
  for (const auto& t : inspected["tensors"])
    out.push_back(t["name"].get<std::string>() + " " + t["kind"].get<std::string>() + " " +
                  t["moment"].get<std::string>());
  return out;
}

json inspected(const command_folder& at, const fs::path& folder, const std::vector<std::string>& more = {}) {
  std::vector<std::string> command{"checkpoint", "inspect", folder.string(), "--json"};
  command.insert(command.end(), more.begin(), more.end());
  const auto did = at.troupe(command);
  BOOST_TEST_REQUIRE(did.code == 0, folder << ": " << did.err);
  return json::parse(did.out);
}

}  // namespace

BOOST_AUTO_TEST_CASE(names_are_printed_as_a_file_that_gives_them_again) {
  const command_folder at;
  at.folder.write("own.yaml", "names: {'(.*)': 'own.\\1'}\n");
  for (const char* name :
       {"distributed/gpt2_fsdp", "distributed/llama_2d", "distributed/llama_2d_hf", "distributed/llama_2d_hf/sharded",
        "torch_dist/fully_reshardable", "torch_dist/dp_reshardable", "torch_dist/accelerate", "trainer/trainer_gpt2",
        "trainer/trainer_llama", "trainer/accelerate_gpt2", "trainer/accelerate_llama", "deepspeed_gpt2/stage2_fp32",
        "trainer/trainer_llama.safetensors"}) {
    BOOST_TEST_CONTEXT(name) {
      const auto folder = fixtures / name;
      const auto before = names_in(inspected(at, folder));
      const auto printed = at.troupe({"checkpoint", "inspect", folder.string(), "--print-map"});
      BOOST_TEST_REQUIRE(printed.code == 0, printed.err);
      fs::remove(at.folder / "map.yaml");
      at.folder.write("map.yaml", printed.out);
      const auto again = at.troupe({"checkpoint", "inspect", folder.string(), "--map", "map.yaml", "--print-map"});
      BOOST_TEST(again.out == printed.out);
      BOOST_TEST(names_in(inspected(at, folder, {"--map", "map.yaml"})) == before, boost::test_tools::per_element());
      for (const auto& own : names_in(inspected(at, folder, {"--map", "own.yaml"})))
        BOOST_TEST(own.starts_with("own."), own);
    }
  }
}

BOOST_AUTO_TEST_CASE(names_of_layers_become_the_models_where_its_description_is_given) {
  const command_folder at;
  at.folder.write("config.json", R"({"model_type": "gpt2", "n_layer": 1, "n_embd": 8, "n_head": 2, "n_positions": 8,
                                    "vocab_size": 128})");
  const auto did = at.troupe({"checkpoint", "inspect", (fixtures / "deepspeed_gpt2/pipeline_fp32").string(),
                              "--print-map", "--model-config", "config.json"});
  BOOST_TEST_REQUIRE(did.code == 0, did.err);
  for (const char* row :
       {"'1\\.weight': 'transformer.wpe.weight'\n", "'tied_modules\\.embed\\.weight': 'transformer.wte.weight'\n"})
    BOOST_TEST(has(did.out, row), did.out);
}

BOOST_AUTO_TEST_CASE(what_of_a_trainers_folder_is_taken_over_is_said) {
  const command_folder at;
  const auto folder = fixtures / "trainer/trainer_gpt2";
  const auto shown = at.troupe({"checkpoint", "inspect", folder.string()});
  BOOST_TEST_REQUIRE(shown.code == 0, shown.err);
  for (const char* line : {"checkpoint-3: transformers Trainer, step 3 (3 updates applied), 48 tensors",
                           "\ntrainer_state.json: step 3 is taken over, its log and the place in the data are not\n",
                           "\noptimizer.pt: exp_avg, exp_avg_sq of 16 parameters are taken over\n",
                           "\nscheduler.pt: its position, 3, is taken over; what the schedule is, the job says\n",
                           "\nnot taken over: rng_state.pth, training_args.bin\n"})
    BOOST_TEST(has(shown.out, line), line << " is wanted in\n" << shown.out);
  BOOST_TEST(inspected(at, folder)["remarks"].size() == 4U);
  BOOST_TEST(at.troupe({"checkpoint", "verify", folder.string(), "--quiet"}).code == 0);
  BOOST_TEST(at.troupe({"checkpoint", "diff", folder.string(), (fixtures / "trainer/accelerate_gpt2").string(),
                        "--tolerance", "1", "--quiet"})
                 .code == 0);
  at.folder.write("ds.json", R"({"train_batch_size": 6, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}})");
  for (const std::string to : {"to-deepspeed", "to-dcp"}) {
    const auto did = at.troupe({"checkpoint", to, folder.string(), to, "--job", "ds.json", "--quiet"});
    BOOST_TEST(did.code == 0, did.err);
    const auto same = at.troupe({"checkpoint", "diff", folder.string(), to});
    BOOST_TEST(has(same.out, "48 tensors compared, "), same.out);
    BOOST_TEST(same.code == 0, same.out);
  }
  const auto begun = at.troupe({"init", "from.yaml", "--from", folder.string(), "--text", "corpus.txt"});
  BOOST_TEST(begun.code == 0, begun.err);
  BOOST_TEST(has(scratch_folder::read(at.folder / "from.yaml"), "trainer_gpt2"));
  // without what describes the model: weights alone
  fs::copy(folder / "checkpoint-3", at.folder / "ck", fs::copy_options::recursive);
  fs::remove(at.folder / "ck/config.json");
  const auto unknown = at.troupe({"checkpoint", "inspect", "ck"});
  BOOST_TEST(has(unknown.out, "optimizer.pt: the optimizer's states are not taken over: it knows parameters by number"),
             unknown.out);
  const auto known =
      at.troupe({"checkpoint", "inspect", "ck", "--model-config", (folder / "checkpoint-3/config.json").string()});
  BOOST_TEST(has(known.out, "of 16 parameters are taken over"), known.out);
}

BOOST_AUTO_TEST_CASE(a_head_that_shares_the_embedding_is_written_for_every_family_and_comes_back) {
  const command_folder at;
  const auto folder = fixtures / "trainer/trainer_gpt2/checkpoint-3";
  for (const std::string keys :
       {R"({"model_type": "gpt2"})", R"({"model_type": "gpt2_like", "tie_word_embeddings": true})"}) {
    BOOST_TEST_CONTEXT(keys) {
      for (const char* name : {"hf", "dcp", "again"}) fs::remove_all(at.folder / name);
      fs::create_directory(at.folder / "hf");
      fs::copy(folder / "model.safetensors", at.folder / "hf/model.safetensors");
      at.folder.write("hf/config.json", keys);
      const auto written = at.troupe({"checkpoint", "to-dcp", "hf", "dcp", "--quiet"});
      BOOST_TEST_REQUIRE(written.code == 0, written.err);
      const auto there = inspected(at, "dcp");
      BOOST_TEST(there["tied"] == json::parse(R"([{"name": "lm_head.weight", "of": "transformer.wte.weight"}])"),
                 there["tied"].dump());
      const auto back = at.troupe({"checkpoint", "to-hf", "dcp", "again", "--quiet"});
      BOOST_TEST_REQUIRE(back.code == 0, back.err);
      BOOST_TEST(names_in(inspected(at, "again")) == names_in(inspected(at, "hf")), boost::test_tools::per_element());
      BOOST_TEST(at.troupe({"checkpoint", "diff", "hf", "again"}).code == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
