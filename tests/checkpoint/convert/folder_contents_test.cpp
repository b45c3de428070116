// Tests which part of a folder is read if it contains several checkpoints or exports; the test creates folders as
// trainers leave them.
#include "checkpoint/convert/folder_contents.hpp"

#include <fmt/format.h>

#include "checkpoint/convert/open_source.hpp"
#include "checkpoint/convert/part_of_model.hpp"
#include "formats/compressed/source.hpp"
#include "formats/report/inspect.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(folder_contents)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
using core::dtype;
namespace fs = std::filesystem;

namespace {

const fs::path deepspeed_folder =
    fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed_gpt2/stage2_fp32/global_step3";

/// Writes weights of a small model in the form that a trainer writes.
void write_weights(const fs::path& folder, dtype type = dtype::f32) {
  const std::vector<owned_tensor> weights{{"l.weight", type, {4, 2}}, {"l.bias", type, {4}}};
  check_ok(write_weights_folder(folder, all_to_write(weights), 1000));
}

/// Writes a complete `checkpoint-N` of transformers' Trainer.
void write_checkpoint(const scratch_folder& at, const std::string& name, uint64_t step, dtype type = dtype::f32) {
  const auto folder = at / name;
  write_weights(folder, type);
  at.write(name + "/trainer_state.json", fmt::format(R"({{"global_step": {}}})", step));
  const std::vector<std::byte> matrix(8 * 4), bias(4 * 4);
  const std::vector<torch_storage> storages{{dtype::f32, 8, matrix, {}}, {dtype::f32, 4, bias, {}}};
  auto states = torch_value::dict();
  const std::vector<std::vector<int64_t>> shapes{{4, 2}, {4}};
  for (uint32_t i = 0; i < 2; ++i)
    states.set(int64_t{i},
               torch_value::dict().set("step", static_cast<int64_t>(step)).set("exp_avg", torch_view{i, 0, shapes[i]}));
  auto group = torch_value::list();
  group.push(int64_t{0});
  group.push(int64_t{1});
  auto groups = torch_value::list();
  groups.push(torch_value::dict().set("lr", 0.1).set("params", std::move(group)));
  check_ok(write_torch_archive(
      folder / "optimizer.pt",
      torch_value::dict().set("state", std::move(states)).set("param_groups", std::move(groups)), storages));
}

struct opened {
  core::result<tensor_source> source = core::fail(error_kind::bug, "");
  std::string said;
};
opened open(const fs::path& path, bool fallback = false, wanted_of_folder wants = wanted_of_folder::checkpoint) {
  opened out;
  out.source = open_source(path, {.fallback_to_previous = fallback,
                                  .say = [&](const std::string& line) { out.said += line + "\n"; },
                                  .wants = wants});
  return out;
}

void check_step(const opened& got, uint64_t step) {
  check_ok(got.source);
  BOOST_TEST(got.source->run.steps.value_or(0) == step);
}

}  // namespace

BOOST_AUTO_TEST_CASE(the_newest_checkpoint_of_a_trainers_output_is_taken_and_not_the_final_weights_beside_it) {
  const scratch_folder at;
  write_weights(at.path());
  at.write("trainer_state.json", R"({"global_step": 30})");
  write_checkpoint(at, "checkpoint-9", 9);
  write_checkpoint(at, "checkpoint-20", 20);
  const auto got = open(at.path());
  check_step(got, 20);
  BOOST_TEST(got.source->numbered != nullptr);
  BOOST_TEST(
      has(got.said, "checkpoint-20, a checkpoint with optimizer states, is used, not the weights in this folder"),
      got.said);
  BOOST_TEST(has(inspect_text(*got.source), "holds 2 checkpoints, checkpoint-20, checkpoint-9: the newest is used\n"));
  BOOST_TEST(recognise(at.path()).value() == &hugging_face_format);
  // A request for weights alone opens the final ones, which are as exact as the checkpoint's.
  const auto weights = open(at.path(), false, wanted_of_folder::weights);
  check_ok(weights.source);
  BOOST_TEST(weights.source->folder == at.path());
  BOOST_TEST(has(weights.said, "the weights in this folder are used, not checkpoint-20, a checkpoint with"),
             weights.said);
  // The checkpoint can also be opened by its name.
  check_ok(open_source(at.path(), {.tag = "checkpoint-9"}));
}

BOOST_AUTO_TEST_CASE(weights_of_16_bits_are_not_taken_where_masters_of_32_lie_deeper) {
  const scratch_folder at;
  write_weights(at.path(), dtype::bf16);
  fs::create_directories(at / "checkpoint-3");
  fs::copy(deepspeed_folder, at / "checkpoint-3/global_step3", fs::copy_options::recursive);
  at.write("checkpoint-3/latest", "global_step3");
  at.write("checkpoint-3/trainer_state.json", R"({"global_step": 3})");
  at.write("checkpoint-3/config.json", R"({"model_type": "gpt2"})");
  // DeepSpeed writes this file for stage3_gather_16bit_weights_on_model_save.
  write_weights(at / "checkpoint-3", dtype::bf16);
  for (const auto wants : {wanted_of_folder::weights, wanted_of_folder::checkpoint})
    for (const auto& path : {at.path(), at / "checkpoint-3"}) {
      const auto got = open(path, false, wants);
      check_step(got, 3);
      BOOST_TEST(find_tensor(*got.source, "transformer.wte.weight", tensor_kind::master) != nullptr);
      BOOST_TEST(has(got.source->run.model, "gpt2"));  // the model's description is in the parent of DeepSpeed's folder
    }
  const auto whole = open(at / "checkpoint-3");
  BOOST_TEST(!has(inspect_text(*whole.source), "trainer_state.json"));
  at.write("checkpoint-3/trainer_state.json", R"({"global_step": 4})");
  const auto other = open(at / "checkpoint-3");
  check_step(other, 3);
  BOOST_TEST(has(inspect_text(*other.source), "step 3 of the DeepSpeed ZeRO-2 checkpoint is used, not step 4 of '"),
             inspect_text(*other.source));
  const auto weights = open(at.path(), false, wanted_of_folder::weights);
  BOOST_TEST(has(weights.said, "the 32-bit weights of checkpoint-3 are used, not the 16-bit weights in this folder"),
             weights.said);
  // If the final weights are as exact as those of the checkpoint, the final ones are read.
  const scratch_folder narrow;
  write_weights(narrow.path(), dtype::bf16);
  write_checkpoint(narrow, "checkpoint-20", 20, dtype::bf16);
  BOOST_TEST(open(narrow.path(), false, wanted_of_folder::weights).source->folder == narrow.path());
}

BOOST_AUTO_TEST_CASE(one_file_of_16_bits_next_to_shards_of_32_is_not_taken_as_exact_weights) {
  const scratch_folder at;
  const std::vector<owned_tensor> wide{{"l.weight", dtype::f32, {4, 2}}, {"l.bias", dtype::f32, {4}}};
  check_ok(write_weights_folder(at.path(), all_to_write(wide), 40));  // two shards
  BOOST_TEST_REQUIRE(fs::exists(at / "model.safetensors.index.json"));
  const auto alone = open(at.path());
  check_ok(alone.source);
  BOOST_TEST(alone.said == "");

  const scratch_folder narrow;
  write_weights(narrow.path(), dtype::f16);
  fs::copy_file(narrow / "model.safetensors", at / "model.safetensors");
  const auto weights = open(at.path(), false, wanted_of_folder::weights);
  check_ok(weights.source);
  BOOST_TEST((find_tensor(*weights.source, "l.weight", tensor_kind::weight)->type == dtype::f32));
  BOOST_TEST(has(weights.said,
                 "the 32-bit weights of the shards that model.safetensors.index.json lists are used, not "
                 "the 16-bit weights of model.safetensors"),
             weights.said);
  const auto whole = open(at.path());
  check_ok(whole.source);
  BOOST_TEST((find_tensor(*whole.source, "l.weight", tensor_kind::weight)->type == dtype::f16));
  BOOST_TEST(has(whole.said, "model.safetensors is used, as transformers does, not the shards"), whole.said);
  BOOST_TEST(has(inspect_text(*whole.source), "model.safetensors is used, as transformers does, not the shards"));

  // An index whose shards are gone does not hide the one file.
  const scratch_folder lost;
  fs::copy_file(at / "model.safetensors", lost / "model.safetensors");
  fs::copy_file(at / "model.safetensors.index.json", lost / "model.safetensors.index.json");
  const auto left = open(lost.path(), false, wanted_of_folder::weights);
  check_ok(left.source);
  BOOST_TEST(has(left.said, "the 16-bit weights of model.safetensors are used, because the shards"), left.said);

  // Shards of the same precision: the one file is used for weights, too.
  fs::remove(at / "model.safetensors");
  const scratch_folder same;
  write_weights(same.path());
  fs::copy_file(same / "model.safetensors", at / "model.safetensors");
  BOOST_TEST(has(open(at.path(), false, wanted_of_folder::weights).said, "model.safetensors is used"));
}

BOOST_AUTO_TEST_CASE(a_checkpoint_whose_save_was_cut_short_is_refused_by_name_and_passed_over_where_that_is_wanted) {
  const auto check = [](const std::string& what, const std::string& why, const auto& spoil) {
    BOOST_TEST_CONTEXT(what) {
      const scratch_folder at;
      write_checkpoint(at, "checkpoint-20", 20);
      spoil(at);
      const auto refused = open(at.path());
      BOOST_REQUIRE(!refused.source);
      const auto& text = refused.source.error().text;
      for (const std::string& words :
           {std::string("checkpoint-30"), why, std::string("--fallback-to-previous takes checkpoint-20 instead")})
        BOOST_TEST_CONTEXT(words) BOOST_TEST(has(text, words), text);
      const auto got = open(at.path(), true);
      check_step(got, 20);
      BOOST_TEST(has(got.said, "skipped: 'checkpoint-30': "), got.said);
      BOOST_TEST(has(got.said, "used instead: '" + (at / "checkpoint-20").string()), got.said);
      BOOST_TEST(has(inspect_text(*got.source), "skipped: 'checkpoint-30': "));
    }
  };
  check("empty", "is not a checkpoint", [](const scratch_folder& at) { fs::create_directories(at / "checkpoint-30"); });
  check("config alone", "is not a checkpoint",
        [](const scratch_folder& at) { at.write("checkpoint-30/config.json", "{}"); });
  check("no states", "has no trainer_state.json and no optimizer's states, which checkpoint-20 has",
        [](const scratch_folder& at) { write_weights(at / "checkpoint-30"); });
  check("cut weights", "model.safetensors", [](const scratch_folder& at) {
    write_checkpoint(at, "checkpoint-30", 30);
    fs::resize_file(at / "checkpoint-30/model.safetensors", 100);
  });
  check("an adapter", "holds a PEFT adapter",
        [](const scratch_folder& at) { at.write("checkpoint-30/adapter_config.json", "{}"); });
}

BOOST_AUTO_TEST_CASE(folders_of_deepspeed_after_peoples_hands_open_or_list_their_tags) {
  const scratch_folder at;
  const auto copy = [&](const std::string& tag) { fs::copy(deepspeed_folder, at / tag, fs::copy_options::recursive); };
  copy("global_step3");
  // The folder has no `latest`, so its only checkpoint is read.
  const auto only = open(at.path());
  check_step(only, 3);
  BOOST_TEST(has(only.said, "has no 'latest': the only checkpoint there, global_step3, is used"), only.said);
  copy("global_step10");
  copy("global_step9");
  check_failed(open_source(at.path()), error_kind::bad_input,
               "has no 'latest' that names the newest checkpoint: it holds global_step10, global_step9, global_step3: "
               "select one with --tag NAME");
  check_ok(open_source(at.path(), {.tag = "global_step9"}));
  for (const char* latest :
       {"global_step10", " global_step10 \n", "global_step10/\n", "./global_step10", "global_step10\r\n"}) {
    at.write("latest", latest);
    const auto got = check_ok(open_source(at.path()));
    BOOST_TEST(got->folder == at / "global_step10", latest);
  }
  at.write("latest", "global_step20\n");
  check_failed(open_source(at.path()), error_kind::bad_input, "there is no such folder");
  check_failed(open_source(at.path()), error_kind::bad_input,
               "it holds global_step10, global_step9, global_step3: select one with --tag");
  check_failed(open_source(at.path(), {.tag = "gone"}), error_kind::bad_input, "it holds global_step10");
  at.write("latest", "/scratch/run/global_step10\n");
  check_failed(open_source(at.path()), error_kind::bad_input, "it holds global_step10, global_step9, global_step3");
  // The checkpoint that `latest` names lacks the file of one rank.
  at.write("latest", "global_step10\n");
  for (const auto& e : fs::directory_iterator(at / "global_step10"))
    if (has(e.path().filename().string(), "zero_pp_rank_0")) fs::remove(e.path());
  check_failed(open_source(at.path()), error_kind::bad_input, "--fallback-to-previous takes global_step9 instead");
  auto got = open(at.path(), true);
  check_step(got, 3);
  BOOST_TEST(got.source->folder == at / "global_step9");
  // The checkpoint that `latest` names is an empty folder.
  fs::remove_all(at / "global_step10");
  fs::create_directory(at / "global_step10");
  check_failed(open_source(at.path()), error_kind::bad_input, "--fallback-to-previous takes global_step9 instead");
  got = open(at.path(), true);
  BOOST_TEST(got.source->folder == at / "global_step9");
  // In the older checkpoints a file is missing, too, so none of them can be opened.
  for (const char* name : {"global_step9", "global_step3"})
    for (const auto& e : fs::directory_iterator(at / name))
      if (has(e.path().filename().string(), "zero_pp_rank_0")) fs::remove(e.path());
  const auto none = open_source(at.path());
  BOOST_REQUIRE(!none);
  BOOST_TEST(!has(none.error().text, "--fallback-to-previous"), none.error().text);
}

BOOST_AUTO_TEST_CASE(checkpoints_with_a_higher_number_than_that_of_latest_are_not_older_whatever_the_names) {
  for (const std::string stem : {"", "global_step"}) {
    const scratch_folder at;
    for (const char* number : {"50", "100", "200"})
      fs::copy(deepspeed_folder, at / (stem + number), fs::copy_options::recursive);
    at.write("latest", stem + "100");
    for (const auto& e : fs::directory_iterator(at / (stem + "100")))
      if (has(e.path().filename().string(), "zero_pp_rank_0")) fs::remove(e.path());
    check_failed(open_source(at.path()), error_kind::bad_input, "--fallback-to-previous takes " + stem + "50 instead");
    const auto got = open(at.path(), true);
    check_step(got, 3);
    BOOST_TEST(got.source->folder == at / (stem + "50"));
  }
}

BOOST_AUTO_TEST_CASE(a_runs_output_folder_stands_for_its_checkpoints_even_where_weights_lie_beside) {
  const scratch_folder at;
  check_ok(save_sample(real_files(), at / "checkpoints", 4, sample_tensors(1), 2));
  check_step(open(at.path()), 4);
  BOOST_TEST(checkpoints_below(at.path()) == at / "checkpoints");
  write_weights(at.path(), dtype::bf16);  // writes weights as an export does
  const auto got = open(at.path());
  check_step(got, 4);
  BOOST_TEST(has(got.said, "a checkpoint with optimizer states, is used"), got.said);
  check_step(open(at.path(), false, wanted_of_folder::weights), 4);
  BOOST_TEST(checkpoints_below(at.path()) == at / "checkpoints");
  check_ok(open_source(at.path(), {.tag = "step-00000004"}));
}

BOOST_AUTO_TEST_CASE(folders_with_numbers_of_other_trainers_stand_for_the_newest) {
  const scratch_folder at;
  for (const uint64_t step : {2, 10}) write_checkpoint(at, fmt::format("checkpoint/step-{}", step), step);
  fs::create_directories(at / "checkpoint/step-11/plots");
  check_failed(open_source(at.path()), error_kind::bad_input,
               "--fallback-to-previous takes checkpoint/step-10 instead");
  fs::remove_all(at / "checkpoint/step-11");
  check_step(open(at.path()), 10);
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_no_checkpoint_is_refused_with_what_lies_there) {
  const scratch_folder at;
  const auto refusal = [&] {
    const auto s = open_source(at.path());
    BOOST_REQUIRE(!s);
    return s.error().text;
  };
  BOOST_TEST(refusal().ends_with("; it is empty"), refusal());
  for (const char* name : {"a.txt", "b.json", "c.md", "d.md", "e.md", "f.md"}) at.write(name, "x");
  fs::create_directory(at / "0_plots");
  BOOST_TEST(refusal().ends_with("; it holds 0_plots/, a.txt, b.json, c.md, d.md and 2 more"), refusal());
  for (const auto& [name, what] : std::vector<std::pair<std::string, std::string>>{
           {"pytorch_model_rank0.bin", "one rank's share of FSDP's weights (Accelerate's LOCAL_STATE_DICT)"},
           {"pytorch_model_1_rank0.bin", "one rank's share of FSDP's weights (Accelerate's LOCAL_STATE_DICT)"},
           {"pytorch_model-00001-of-00002.bin", "a file of torch.save under a name that no index lists"}}) {
    at.write(name, "x");
    BOOST_TEST(has(refusal(), "it holds '" + name + "', " + what), refusal());
    fs::remove(at / name);
  }
}

BOOST_AUTO_TEST_CASE(an_adapter_is_refused_as_one_with_its_base) {
  const scratch_folder at;
  at.write("checkpoint-10/adapter_config.json", R"({"peft_type": "LORA", "base_model_name_or_path": "somebody/base"})");
  at.write("checkpoint-10/adapter_model.safetensors", as_file("{}"));
  at.write("checkpoint-10/trainer_state.json", R"({"global_step": 10})");
  for (const auto& path : {at.path(), at / "checkpoint-10"})
    check_failed(
        open_source(path), error_kind::bad_input,
        "holds a PEFT adapter (LORA), not a whole model: merge it into its base model, 'somebody/base', first");
}

BOOST_AUTO_TEST_CASE(a_link_that_leads_nowhere_is_named) {
  const scratch_folder at;
  fs::create_directories(at / "out");
  fs::create_symlink("/nonexistent/disk", at / "out/checkpoints");
  for (const auto& path : {at / "out", at / "out/checkpoints", at / "out/checkpoints/step-00000001"})
    check_failed(open_source(path), error_kind::bad_input, "is a link to '/nonexistent/disk', which does not exist");
}

BOOST_AUTO_TEST_CASE(weights_of_other_programs_and_those_read_by_name_alone_are_named) {
  const std::vector<std::pair<std::string, std::string>> cases{
      {"tf_model.h5",
       "it holds 'tf_model.h5', weights of Keras or TensorFlow, which are not read: save the weights as "
       "safetensors with the program that wrote them"},
      {"model.ckpt.index", "weights of TensorFlow"},
      {"flax_model.msgpack", "weights of Flax"},
      {"model.onnx", "a model in ONNX"},
      {"openvino_model.bin", "an OpenVINO model"},
      {"megatron.nemo", "a NeMo archive"},
      {"mp_rank_00/model_optim_rng.pt", "'mp_rank_00/model_optim_rng.pt', a checkpoint in Megatron-LM's old format"},
      {"mp_rank_00/distrib_optim.pt", "states of an optimizer in Megatron-LM's old format, which is not read"},
      {"pytorch_model_fsdp_0/__0_0.distcp", "without the .metadata that describes it: copy the whole folder"},
      {"consolidated.00.pth", "a file of torch.save: name the file itself to read it"},
      {"epoch=0-step=10.ckpt", "a file of torch.save or Lightning: name the file itself to read it"},
      {"model.q8_0.gguf", "a GGUF file: name the file itself to read it"},
      {"weights-01.safetensors", "tensors under a name that no index lists"}};
  for (const auto& [name, words] : cases) {
    const scratch_folder at;
    at.write("config.json", "{}");
    at.write("optimizer.pt", "x");
    at.write(name, "x");
    check_failed(open_source(at.path()), error_kind::bad_input, words);
  }
  const scratch_folder at;
  for (const char* name : {"config.json", "optimizer.pt", "rng_state_0.pth", "training_args.bin", "corpus.bin"})
    at.write(name, "x");
  check_failed(open_source(at.path()), error_kind::bad_input, "it holds neither manifest.json");
}

BOOST_AUTO_TEST_CASE(a_file_that_is_one_of_several_of_a_model_says_so) {
  const scratch_folder at;
  const std::string file = as_file(R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[0,0]}})");
  const auto remarks = [&](const char* name) {
    const auto s = check_ok(open_source(at / name));
    return s->remarks;
  };
  const char* first = "model-00001-of-00003.safetensors";
  at.write(first, file);
  BOOST_TEST(remarks(first).empty());
  at.write("model-00002-of-00003.safetensors", file);
  at.write("model-00003-of-00003.safetensors", file);
  BOOST_TEST_REQUIRE(remarks(first).size() == 1U);
  BOOST_TEST(
      remarks(first)[0] ==
      "left out: 'model-00002-of-00003.safetensors' and 1 more next to it: this file has only a part of a model");
  for (const char* name : {"epoch-1.safetensors", "epoch-2.safetensors"}) at.write(name, file);
  BOOST_TEST(remarks("epoch-1.safetensors").empty());
  for (const auto& [name, other] :
       {std::pair{"consolidated.00.pth", "consolidated.01.pth"},
        {"mp_rank_00_model_states.pt", "mp_rank_01_model_states.pt"},
        {"layer_00-model_00-model_states.pt", "layer_01-model_00-model_states.pt"},
        {"iter_0000100/mp_rank_00_001/model_optim_rng.pt", "iter_0000100/mp_rank_01_001/model_optim_rng.pt"}}) {
    BOOST_TEST_INFO_SCOPE(name);
    at.write(name, "x");
    BOOST_TEST(!part_of_model(at / name).has_value());
    at.write(other, "x");
    BOOST_TEST(part_of_model(at / name).has_value());
  }
}

BOOST_AUTO_TEST_SUITE_END()
