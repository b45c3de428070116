// Tests `troupe checkpoint` with folders that other programs saved: the messages about them, and their tensor names,
// which are printed as a file for `--map` and read back.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>

#include "formats/torch/archive_writer.hpp"

#include "tests/apps/topology.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(foreign_folders)

using namespace troupe::tests;
using nlohmann::json;
namespace formats = troupe::formats;
namespace core = troupe::core;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures";

/// Returns the name, the kind and the moment of every tensor.
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

/// Copies a folder of the Trainer to `ck` and removes all optimizer states except those of the embedding.
void write_embedding_states_alone(const command_folder& at) {
  namespace ck = formats;
  fs::copy(fixtures / "trainer/trainer_gpt2/checkpoint-3", at.folder / "ck", fs::copy_options::recursive);
  const std::vector<std::byte> bytes(size_t{128} * 8 * sizeof(float), std::byte{0x3c});
  const std::vector<ck::torch_storage> storages(2, {core::dtype::f32, 128 * 8, bytes, {}});
  auto groups = ck::torch_value::list();
  for (const auto& [begin, end] : {std::pair<int64_t, int64_t>(0, 6), {6, 16}}) {
    auto numbers = ck::torch_value::list();
    for (int64_t n = begin; n < end; ++n) numbers.push(n);
    groups.push(ck::torch_value::dict().set("lr", 0.1).set("params", std::move(numbers)));
  }
  auto one = ck::torch_value::dict();
  one.set("step", int64_t{3}).set("exp_avg", ck::torch_view{0, 0, {128, 8}});
  one.set("exp_avg_sq", ck::torch_view{1, 0, {128, 8}});
  auto states = ck::torch_value::dict();
  states.set(int64_t{0}, std::move(one));
  fs::remove(at.folder / "ck/optimizer.pt");
  check_ok(ck::write_torch_archive(
      at.folder / "ck/optimizer.pt",
      ck::torch_value::dict().set("state", std::move(states)).set("param_groups", std::move(groups)), storages));
}

}  // namespace

BOOST_AUTO_TEST_CASE(parameters_without_states_are_written_with_moments_of_0_and_named) {
  const command_folder at;
  write_embedding_states_alone(at);
  at.folder.write("ds.json", R"({"train_batch_size": 6, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}})");
  const auto whole = inspected(at, fixtures / "trainer/trainer_gpt2");
  for (const std::string to : {"to-deepspeed", "to-universal", "reshape", "to-dcp"}) BOOST_TEST_CONTEXT(to) {
      const auto did = check_exit(0, at.troupe({"checkpoint", to, "ck", to, "--job", "ds.json", "--quiet"}));
      BOOST_TEST(has(did.err,
                     "15 of 16 parameters, as transformer.h.0.attn.c_attn.bias, have no states of an optimizer: "
                     "they are written as trained parameters with moments of 0; parameter_groups with "
                     "trainable: false in --job make them frozen"),
                 did.err);
      BOOST_TEST(names_in(inspected(at, to)) == names_in(whole), boost::test_tools::per_element());
      check_exit(0, at.troupe({"checkpoint", "to-hf", to, to + "_hf", "--model-config", "ck/config.json", "--quiet"}));
      check_exit(0, at.troupe({"checkpoint", "diff", "ck/model.safetensors", to + "_hf"}));
    }
  at.folder.write("frozen.yaml", smallest + "parameter_groups: [{match: 'wpe|ln|bias', trainable: false}]\n");
  const auto did =
      check_exit(0, at.troupe({"checkpoint", "to-universal", "ck", "frozen", "--job", "frozen.yaml", "--force"}));
  BOOST_TEST(has(did.err, "4 of 16 parameters, as transformer.h.0.attn.c_attn.weight, have no states"), did.err);
  BOOST_TEST(std::ranges::count_if(inspected(at, "frozen")["tensors"],
                                   [](const json& t) { return t["kind"] == "frozen"; }) == 11);
}

BOOST_AUTO_TEST_CASE(states_that_the_written_optimizer_does_not_keep_are_left_out_and_those_it_needs_are_asked_for) {
  const command_folder at;
  const auto folder = (fixtures / "trainer/trainer_gpt2").string();
  at.folder.write("lion.json", R"({"train_batch_size": 6, "optimizer": {"type": "Lion", "params": {"lr": 0.003}}})");
  at.folder.write("sgd.json", R"({"train_batch_size": 6,
                                  "optimizer": {"type": "SGD", "params": {"lr": 0.003, "momentum": 0.9}}})");
  for (const std::string to : {"to-deepspeed", "to-universal", "reshape", "to-dcp"}) BOOST_TEST_CONTEXT(to) {
      const auto did = check_exit(0, at.troupe({"checkpoint", to, folder, to, "--job", "lion.json", "--quiet"}));
      BOOST_TEST(has(did.err, "exp_avg_sq left out: lion does not use it"), did.err);
      for (const auto& name : names_in(inspected(at, to))) BOOST_TEST(!has(name, "exp_avg_sq"), name);
      const auto refused = check_exit(2, at.troupe({"checkpoint", to, folder, "none", "--job", "sgd.json"}));
      BOOST_TEST(has(refused.err,
                     "(moment momentum_buffer) is not in the checkpoint, and sgd needs it; give the file of the "
                     "run that wrote the checkpoint by --job"),
                 refused.err);
    }
}

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
      const auto printed = check_exit(0, at.troupe({"checkpoint", "inspect", folder.string(), "--print-map"}));
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
  const auto did =
      check_exit(0, at.troupe({"checkpoint", "inspect", (fixtures / "deepspeed_gpt2/pipeline_fp32").string(),
                               "--print-map", "--model-config", "config.json"}));
  for (const char* row :
       {"'1\\.weight': 'transformer.wpe.weight'\n", "'tied_modules\\.embed\\.weight': 'transformer.wte.weight'\n"})
    BOOST_TEST_CONTEXT(row) BOOST_TEST(has(did.out, row), did.out);
}

BOOST_AUTO_TEST_CASE(what_of_a_trainers_folder_is_taken_over_is_said) {
  const command_folder at;
  const auto folder = fixtures / "trainer/trainer_gpt2";
  const auto shown = check_exit(0, at.troupe({"checkpoint", "inspect", folder.string()}));
  for (const char* line : {"checkpoint-3: transformers Trainer, step 3 (3 updates applied), 48 tensors",
                           "\ntrainer_state.json: step 3 is imported, its log and the position in the data are not\n",
                           "\noptimizer.pt: exp_avg, exp_avg_sq of 16 parameters are read\n",
                           "\nscheduler.pt: its position, 3, is imported; the job defines the schedule\n",
                           "\nnot imported: rng_state.pth, training_args.bin\n"})
    BOOST_TEST(has(shown.out, line), line << " is wanted in\n" << shown.out);
  BOOST_TEST(inspected(at, folder)["remarks"].size() == 4U);
  BOOST_TEST(at.troupe({"checkpoint", "verify", folder.string(), "--quiet"}).code == 0);
  BOOST_TEST(at.troupe({"checkpoint", "diff", folder.string(), (fixtures / "trainer/accelerate_gpt2").string(),
                        "--tolerance", "1", "--quiet"})
                 .code == 0);
  at.folder.write("ds.json", R"({"train_batch_size": 6, "optimizer": {"type": "AdamW", "params": {"lr": 0.003}}})");
  for (const std::string to : {"to-deepspeed", "to-dcp"}) {
    BOOST_TEST_INFO_SCOPE(to);
    check_exit(0, at.troupe({"checkpoint", to, folder.string(), to, "--job", "ds.json", "--quiet"}));
    const auto same = at.troupe({"checkpoint", "diff", folder.string(), to});
    BOOST_TEST(has(same.out, "48 tensors compared, "), same.out);
    BOOST_TEST(same.code == 0, same.out);
  }
  check_exit(0, at.troupe({"init", "from.yaml", "--from", folder.string(), "--text", "corpus.txt"}));
  BOOST_TEST(has(scratch_folder::read(at.folder / "from.yaml"), "trainer_gpt2"));
  // The folder lacks the description of the model, so only its weights are read.
  fs::copy(folder / "checkpoint-3", at.folder / "ck", fs::copy_options::recursive);
  fs::remove(at.folder / "ck/config.json");
  const auto unknown = at.troupe({"checkpoint", "inspect", "ck"});
  BOOST_TEST(has(unknown.out, "optimizer.pt: the optimizer's states are not imported: it numbers its parameters"),
             unknown.out);
  const auto known =
      at.troupe({"checkpoint", "inspect", "ck", "--model-config", (folder / "checkpoint-3/config.json").string()});
  BOOST_TEST(has(known.out, "of 16 parameters are read"), known.out);
}

BOOST_AUTO_TEST_CASE(a_run_resumes_from_the_newest_checkpoint_of_a_trainers_output_and_not_from_its_final_model) {
  const command_folder at(
      "model: {model_type: gpt2, n_layer: 1, n_embd: 8, n_head: 2, n_positions: 8, vocab_size: 128, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n"
      "data: {text: corpus.txt, sequence_length: 8}\nseed: 1\nsteps: 5\ntrain_micro_batch_size_per_gpu: 2\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\noutput: out\n");
  fs::copy(fixtures / "trainer/trainer_gpt2", at.folder / "output", fs::copy_options::recursive);
  fs::copy(at.folder / "output/checkpoint-3/model.safetensors", at.folder / "output/model.safetensors");
  fs::copy(at.folder / "output/checkpoint-3/config.json", at.folder / "output/config.json");
  const auto r = check_exit(0, at.troupe({"train", "job.yaml", "--resume", "output"}));
  BOOST_TEST(
      has(r.out + r.err, "checkpoint-3, a checkpoint with optimizer states, is used, not the weights in this folder"),
      r.err);
  BOOST_TEST(has(r.out, "step 4/5"), r.out);
  BOOST_TEST(!has(r.out, "step 1/5"), r.out);
  const auto shown = at.troupe({"checkpoint", "inspect", "output"});
  BOOST_TEST(has(shown.out, "output/checkpoint-3: transformers Trainer, step 3"), shown.out);
  BOOST_TEST(has(shown.out, "\n'output': checkpoint-3, a checkpoint with optimizer states, is used"), shown.out);
  BOOST_TEST(shown.err == "");
  // The folder contains an interrupted save.
  fs::create_directory(at.folder / "output/checkpoint-4");
  fs::copy(at.folder / "output/model.safetensors", at.folder / "output/checkpoint-4/model.safetensors");
  const auto refused = at.troupe({"train", "job.yaml", "--resume", "output", "--fresh", "--steps", "5"});
  BOOST_TEST(refused.code != 0);
  BOOST_TEST(
      has(refused.err, "checkpoint-4' has no trainer_state.json and no optimizer's states, which checkpoint-3 has"),
      refused.err);
  fs::remove_all(at.folder / "out");
  const auto before = check_exit(0, at.troupe({"train", "job.yaml", "--resume", "output", "--fallback-to-previous"}));
  BOOST_TEST(has(before.out + before.err, "/output/checkpoint-3'"), before.err);
  BOOST_TEST(has(before.out, "step 4/5"), before.out);
}

BOOST_AUTO_TEST_CASE(a_resume_names_the_states_that_its_optimizer_does_not_keep) {
  const command_folder at(
      "model: {model_type: gpt2, n_layer: 1, n_embd: 8, n_head: 2, n_positions: 8, vocab_size: 128, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n"
      "data: {text: corpus.txt, sequence_length: 8}\nseed: 1\nsteps: 4\ntrain_micro_batch_size_per_gpu: 2\n"
      "optimizer: {type: Lion, params: {lr: 1.0e-4}}\noutput: out\n");
  const auto r =
      check_exit(0, at.troupe({"train", "job.yaml", "--resume", (fixtures / "trainer/trainer_gpt2").string()}));
  BOOST_TEST(has(r.out + r.err,
                 "has states that this run's optimizer, lion, does not keep and that are left out: exp_avg_sq; set "
                 "checkpoint.load.optimizer_states: false (--no-load-optimizer-states) to begin without all of its "
                 "states"),
             r.err);
}

BOOST_AUTO_TEST_CASE(a_resume_counts_the_trained_parameters_that_have_no_states) {
  const command_folder at(
      "model: {model_type: gpt2, n_layer: 1, n_embd: 8, n_head: 2, n_positions: 8, vocab_size: 128, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n"
      "data: {text: corpus.txt, sequence_length: 8}\nseed: 1\nsteps: 4\ntrain_micro_batch_size_per_gpu: 2\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\noutput: out\n");
  write_embedding_states_alone(at);
  const auto r = check_exit(0, at.troupe({"train", "job.yaml", "--resume", "ck"}));
  BOOST_TEST(
      has(r.out + r.err,
          "has no states of an optimizer for 15 trained parameters, as transformer.wpe.weight: their moments "
          "begin at 0 while bias correction counts the run's 3 updates, so that their first update is 0.58 times "
          "the learning rate"),
      r.err);
  const auto lion = check_exit(
      0, at.troupe({"train", "job.yaml", "--resume", "ck", "--set", "optimizer.type=Lion", "--set", "output=other"}));
  BOOST_TEST(has(lion.out + lion.err, "15 trained parameters, as transformer.wpe.weight: their moments begin at 0\n"),
             lion.err);
}

BOOST_AUTO_TEST_CASE(a_start_from_a_damaged_newest_checkpoint_says_how_an_older_one_is_taken) {
  const command_folder at(
      "model: {model_type: gpt2, n_layer: 1, n_embd: 8, n_head: 2, n_positions: 8, vocab_size: 128, embd_pdrop: 0, "
      "attn_pdrop: 0, resid_pdrop: 0}\n"
      "data: {text: corpus.txt, sequence_length: 8}\nseed: 1\nsteps: 4\ntrain_micro_batch_size_per_gpu: 2\n"
      "optimizer: {type: AdamW, params: {lr: 1.0e-3}}\noutput: out\ncheckpoint: {every_steps: 2}\n");
  BOOST_TEST_REQUIRE(at.troupe({"train", "job.yaml"}).code == 0);
  const fs::path newest = at.folder / "out/checkpoints/step-00000004";
  const std::vector<std::vector<std::string>> starts{
      {"train", "job.yaml", "--steps", "5"},
      {"train", "job.yaml", "--steps", "5", "--resume", "out", "--set", "output=other"},
      {"train", "job.yaml", "--steps", "5", "--set", "checkpoint.load.path=out", "--set", "output=other"}};
  const auto check = [&](const std::string& words) {
    for (auto start : starts) {
      const auto refused = at.troupe(start);
      BOOST_TEST(refused.code != 0);
      BOOST_TEST(has(refused.err, words), refused.err);
    }
  };
  const auto shard = newest / "shard-00000.bin";
  auto bytes = scratch_folder::read(shard);
  bytes[4096 + 3] = static_cast<char>(bytes[4096 + 3] ^ 1);
  std::ofstream(shard, std::ios::binary) << bytes;
  check("; --fallback-to-previous takes the newest that is whole instead");
  fs::resize_file(shard, 100);
  check("; --fallback-to-previous takes step-00000002 instead");
  at.folder.write("out/checkpoints/latest", "of no checkpoint\n");
  check("; --fallback-to-previous takes step-00000002 instead");
  for (size_t i = starts.size(); i-- > 0;) {  // the run's own folder is the last, because that run saves in it
    auto start = starts[i];
    start.emplace_back("--fallback-to-previous");
    const auto taken = check_exit(0, at.troupe(start));
    BOOST_TEST(has(taken.out, "step 3/5"), taken.out);
    fs::remove_all(at.folder / "other");
  }
}

BOOST_AUTO_TEST_CASE(an_output_that_repeats_few_bytes_under_many_names_is_refused_and_kept_once_by_torchs_files) {
  const command_folder at;
  const std::vector<std::byte> bytes(1 << 20);
  std::map<std::string, std::string> names;
  for (int i = 0; i < 200; ++i) names.emplace(fmt::format("alias.{}", i), "w");
  const std::vector<formats::tensor_to_write> one{{"w", core::dtype::f32, {512, 512}, bytes, {}}};
  check_ok(formats::write_torch_archive(at.folder / "w.pt", one, names));
  const auto refused = check_exit(2, at.troupe({"checkpoint", "to-fp32", "w.pt", "out.safetensors"}));
  BOOST_TEST(has(refused.err, "'out.safetensors' would take 202 MiB, more than 64 times the 1.0"), refused.err);
  BOOST_TEST(!fs::exists(at.folder / "out.safetensors"));
  check_exit(0, at.troupe({"checkpoint", "to-fp32", "w.pt", "out.pt"}));
  BOOST_TEST(fs::file_size(at.folder / "out.pt") < 2U << 20);
}

BOOST_AUTO_TEST_CASE(refusals_of_a_file_in_the_current_folder_name_it) {
  const command_folder at;
  at.folder.write("empty.safetensors", std::string("\2\0\0\0\0\0\0\0{}", 10));
  for (const char* to : {"to-fp32", "to-hf", "to-gguf", "to-deepspeed", "to-universal", "to-dcp", "reshape"}) {
    const auto did = at.troupe({"checkpoint", to, "empty.safetensors", "out"});
    BOOST_TEST(!has(did.err, "''"), to << ": " << did.err);
  }
}

BOOST_AUTO_TEST_CASE(codes_of_other_tools_are_refused_by_every_command_that_takes_values) {
  const command_folder at;
  at.folder.write("q/config.json",
                  R"({"model_type": "llama", "quantization_config": {"quant_method": "gptq", "bits": 4}})");
  const std::string header = R"({"m.qweight":{"dtype":"I32","shape":[2],"data_offsets":[0,8]}})";
  at.folder.write("q/model.safetensors", std::string(1, static_cast<char>(header.size())) + std::string(7, '\0') +
                                             header + std::string(8, '\0'));
  for (const char* to : {"to-fp32", "to-hf", "to-gguf", "to-deepspeed", "to-universal", "to-dcp", "reshape"}) {
    BOOST_TEST_INFO_SCOPE(to);
    const auto did = at.troupe({"checkpoint", to, "q", "out"});
    BOOST_TEST(did.code == 2, to);
    BOOST_TEST(
        has(did.err, "'q': its weights are quantised with GPTQ (config.json: quantization_config.quant_method 'gptq')"),
        did.err);
  }
  const auto squeezed = at.troupe({"compress", "q", "out", "--to", "gguf:q8_0"});
  BOOST_TEST(has(squeezed.err, "quantised with GPTQ"), squeezed.err);
  const auto trained = at.troupe({"train", "job.yaml", "--resume", "q"});
  BOOST_TEST(has(trained.err, "quantised with GPTQ"), trained.err);
  for (const char* look : {"inspect", "verify"}) BOOST_TEST(at.troupe({"checkpoint", look, "q"}).code == 0, look);
}

BOOST_AUTO_TEST_CASE(a_head_that_the_jobs_model_ties_is_no_parameter_of_its_own) {
  command_folder at;
  at.folder.write("gpt2.yaml",
                  "model: {model_type: gpt2, n_layer: 1, n_embd: 8, n_head: 2, n_positions: 8, vocab_size: 128}\n"
                  "data: {text: corpus.txt}\nsteps: 1\ntrain_batch_size: 6\n"
                  "optimizer: {type: AdamW, params: {lr: 0.003}}\n");
  const auto source = (fixtures / "distributed/gpt2_fsdp").string();
  const auto did = check_exit(0, at.troupe({"checkpoint", "to-dcp", source, "dcp", "--job", "gpt2.yaml", "--quiet"}));
  BOOST_TEST(!has(did.err, "no states of an optimizer"), did.err);
  const auto there = inspected(at, "dcp");
  BOOST_TEST(there["tied"] == json::parse(R"([{"name": "lm_head.weight", "of": "transformer.wte.weight"}])"),
             there["tied"].dump());
}

BOOST_AUTO_TEST_CASE(a_head_that_shares_the_embedding_is_written_for_every_family_and_comes_back) {
  const command_folder at;
  const auto folder = fixtures / "trainer/trainer_gpt2/checkpoint-3";
  const auto own = json::parse(scratch_folder::read(folder / "config.json"));
  for (const char* family : {"gpt2", "gpt2_like"}) {
    auto described = own;
    described["model_type"] = family;
    const std::string keys = described.dump();
    BOOST_TEST_CONTEXT(family) {
      for (const char* name : {"hf", "dcp", "again"}) fs::remove_all(at.folder / name);
      fs::create_directory(at.folder / "hf");
      fs::copy(folder / "model.safetensors", at.folder / "hf/model.safetensors");
      at.folder.write("hf/config.json", keys);
      check_exit(0, at.troupe({"checkpoint", "to-dcp", "hf", "dcp", "--quiet"}));
      const auto there = inspected(at, "dcp");
      BOOST_TEST(there["tied"] == json::parse(R"([{"name": "lm_head.weight", "of": "transformer.wte.weight"}])"),
                 there["tied"].dump());
      check_exit(0, at.troupe({"checkpoint", "to-hf", "dcp", "again", "--quiet"}));
      BOOST_TEST(names_in(inspected(at, "again")) == names_in(inspected(at, "hf")), boost::test_tools::per_element());
      BOOST_TEST(at.troupe({"checkpoint", "diff", "hf", "again"}).code == 0);
    }
  }
}

BOOST_AUTO_TEST_SUITE_END()
