// Tests all commands that write weights, and what each of them compares, keeps and refuses: the model's parameters, a
// tied head with values of its own, values beyond the range of the written type, keys of config.json, tokenizer files.
#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <tuple>

#include "checkpoint/convert/open_source.hpp"
#include "formats/gguf/header.hpp"
#include "formats/gguf/writer.hpp"
#include "formats/safetensors/writer.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive_writer.hpp"
#include "tests/apps/whole_folder.hpp"
#include "tests/places.hpp"

BOOST_AUTO_TEST_SUITE(exports)

using namespace troupe;
using namespace troupe::tests;
namespace fs = std::filesystem;
using json = nlohmann::json;

namespace {

/// Returns the elements of a tensor of any checkpoint, in fp32.
std::vector<float> values_of(const fs::path& path, const std::string& name) {
  const auto s = check_ok(checkpoint::open_source(path));
  const formats::tensor_entry* t = nullptr;
  for (const auto kind : {formats::tensor_kind::master, formats::tensor_kind::weight})
    if (t == nullptr) t = formats::find_tensor(*s, name, kind);
  BOOST_REQUIRE_MESSAGE(t != nullptr, path.string() << " has no " << name);
  size_t n = 1;
  for (const auto d : t->shape) n *= static_cast<size_t>(d);
  std::vector<float> out(n);
  formats::source_reader reader(*s);
  check_ok(reader.read_as(core::dtype::f32, *t, 0, n, std::as_writable_bytes(std::span(out))));
  return out;
}

/// Returns the loss printed by a run of one step that does not change the weights.
double loss_of(const command_folder& at, const std::vector<std::string>& more = {}) {
  std::vector<std::string> all{"train", "job.yaml", "--fresh", "--json"};
  all.insert(all.end(), more.begin(), more.end());
  const auto r = check_exit(0, at.troupe(all));
  const auto at_loss = r.out.find("\"loss\":");
  BOOST_TEST_REQUIRE(at_loss != std::string::npos, r.out);
  return std::stod(r.out.substr(at_loss + 7));
}

/// Copies the GGUF file `from` to `to` and adds keys.
void add_keys(const fs::path& from, const fs::path& to,
              const std::vector<std::pair<std::string, formats::gguf_value>>& keys) {
  const auto file = check_ok(core::source_file::open(from));
  auto header = check_ok(formats::read_gguf_header(*file));
  for (const auto& [key, value] : keys) header->metadata.set(key, value);
  auto out = check_ok(formats::gguf_writer::create(to, header->metadata, header->tensors));
  for (const auto& t : header->tensors) {
    std::vector<std::byte> bytes(t.bytes());
    check_ok(file->read(header->data_begin + t.offset_bytes, bytes));
    check_ok(out->write(bytes));
  }
  check_ok(out->commit());
}

}  // namespace

BOOST_AUTO_TEST_CASE(weights_of_another_shape_than_config_json_says_are_refused_by_every_writer) {
  const whole_folder f;
  for (const auto& [key, value, words] : std::vector<std::tuple<std::string, int, std::string>>{
           {"vocab_size", 255, "must have the shape (255, 32), got (256, 32)"},
           {"n_inner", 64, "must have the shape (32, 64), got (32, 128)"},
           {"n_positions", 8, "must have the shape (8, 32), got (16, 32)"},
           {"n_layer", 2, "it lacks 12 parameters of the model"}}) {
    auto keys = json::parse(whole_gpt2);
    keys[key] = value;
    f.folder.write("other.json", keys.dump());
    for (auto [out, command] : whole_folder::all_exports("hf", false)) {
      command.insert(command.end(), {"--model-config", "other.json"});
      f.check_refused(f.troupe(command), words);
      BOOST_TEST(!fs::exists(f.folder / out), out);
    }
    f.check_refused(f.checkpoint({"to-fp32", "hf", "w.safetensors", "--model-config", "other.json"}), words);
    BOOST_TEST(!fs::exists(f.folder / "w.safetensors"));
  }
  f.check_well(f.checkpoint({"to-fp32", "hf", "w.safetensors", "--model-config", "hf/config.json"}));
}

BOOST_AUTO_TEST_CASE(a_missing_norm_or_head_and_a_layer_too_many_are_refused_by_every_writer) {
  whole_folder f(whole_llama);
  auto keys = json::parse(whole_llama);
  keys["tie_word_embeddings"] = false;
  f.folder.write("untied.json", keys.dump());
  for (auto [out, command] : whole_folder::all_exports("hf", true)) {
    command.insert(command.end(), {"--model-config", "untied.json"});
    f.check_refused(f.troupe(command),
                    "it lacks 1 parameters of the model that its config.json describes, such as lm_head.weight");
  }
  auto all = f.tensors;
  std::erase_if(f.tensors, [](const auto& t) { return t.name == "model.norm.weight"; });
  f.write("no_norm");
  f.folder.write("no_norm/config.json", whole_llama);
  f.tensors = all;
  f.tensors.emplace_back("model.layers.1.mlp.up_proj.weight", core::dtype::f32, std::vector<int64_t>{64, 32});
  f.write("more");
  f.folder.write("more/config.json", whole_llama);
  for (const auto& [out, command] : whole_folder::all_exports("no_norm", true))
    f.check_refused(f.troupe(command), "as model.norm.weight");
  for (const auto& [out, command] : whole_folder::all_exports("more", true))
    f.check_refused(f.troupe(command),
                    "holds 1 parameters that its model does not have, such as model.layers.1.mlp.up_proj.weight");
}

BOOST_AUTO_TEST_CASE(further_names_of_parameters_that_the_model_does_not_have_are_left_out_by_every_writer) {
  const whole_folder f(whole_llama);
  f.folder.write("shared/config.json", whole_llama);
  check_ok(formats::write_torch_archive(
      f.folder / "shared/pytorch_model.bin", all_to_write(f.tensors),
      {{"backbone.norm.weight", "model.norm.weight"}, {"second.weight", "model.norm.weight"}}));
  for (const auto& [out, command] : whole_folder::exports("shared", true))
    f.check_well(f.troupe(command),
                 "2 further names of its parameters that its model does not have are left out, such as "
                 "backbone.norm.weight, second.weight");
  const auto there = f.checkpoint({"inspect", "out_hf", "--json"}).out;
  BOOST_TEST((!has(there, "backbone") && !has(there, "second.weight")), there);
  f.check_well(f.checkpoint({"diff", "hf", "out_hf"}), "equal");
}

BOOST_AUTO_TEST_CASE(integers_as_a_parameter_are_refused_by_every_writer_and_buffers_may_be_integers) {
  whole_folder f(whole_llama);
  f.tensors.emplace_back("model.layers.0.self_attn.rotary_emb.inv_freq", core::dtype::i64, std::vector<int64_t>{4});
  f.write();
  f.check_well(f.checkpoint({"to-hf", "hf", "good"}));
  for (const auto type : {core::dtype::i64, core::dtype::u8, core::dtype::boolean}) {
    BOOST_TEST_INFO_SCOPE(core::name_of(type));
    f.named("model.norm.weight") = owned_tensor("model.norm.weight", type, {32});
    if (type == core::dtype::boolean) f.named("model.norm.weight").data.assign(32, std::byte{1});
    f.write();
    for (const auto& [out, command] : whole_folder::all_exports("hf", true)) {
      f.check_refused(f.troupe(command),
                      "parameter 'model.norm.weight': wanted a floating type, got " + std::string(core::name_of(type)));
      BOOST_TEST(!fs::exists(f.folder / out), out);
    }
  }
}

BOOST_AUTO_TEST_CASE(buffers_that_the_model_does_not_have_are_left_out_by_writers_of_models_and_named) {
  whole_folder f(whole_llama);
  f.tensors.emplace_back("texts_so_far", core::dtype::i64, std::vector<int64_t>{1});
  const auto all = all_to_write(f.tensors);
  std::vector<const formats::tensor_to_write*> listed;
  auto places = json::object();
  for (const auto& t : all) {
    listed.push_back(&t);
    places[t.name]["saved_offsets"] = std::vector<int64_t>(t.shape.size(), 0);
  }
  f.folder.write("dcp/config.json", whole_llama);
  auto file = check_ok(formats::prepare_safetensors(f.folder / "dcp/shard-00001-model-00001-of-00001.safetensors",
                                                    listed, formats::string_map{{"DCP_SHARDING_INFO", places.dump()}}));
  check_ok(file->commit());
  for (const auto& [out, command] : whole_folder::exports("dcp", true)) {
    if (out == "out_dcp") continue;  // such a folder has the buffers of its source
    BOOST_TEST_INFO_SCOPE(out);
    f.check_well(f.troupe(command), "1 buffer that its model does not have is left out, such as texts_so_far");
    BOOST_TEST(!has(f.checkpoint({"inspect", out, "--json"}).out, "texts_so_far"));
  }
  f.check_well(f.checkpoint({"diff", "hf", "out_hf"}), "equal");
}

BOOST_AUTO_TEST_CASE(prefixes_that_stand_there_twice_are_taken_by_every_writer_and_every_start) {
  whole_folder f(whole_llama);
  const double wanted = loss_of(f);
  for (auto& t : f.tensors) t.name = "model." + t.name;
  f.write();
  for (const auto& [out, command] : whole_folder::exports("hf", true)) f.check_well(f.troupe(command));
  BOOST_TEST(has(f.checkpoint({"inspect", "out_hf", "--json"}).out, "\"model.norm.weight\""));
  BOOST_TEST(!has(f.checkpoint({"inspect", "out_hf", "--json"}).out, "model.model."));
  BOOST_TEST(loss_of(f) == wanted);
  BOOST_TEST(loss_of(f, {"--resume", "hf", "--set", "model.path=out_hf"}) == wanted);
}

BOOST_AUTO_TEST_CASE(weights_that_peft_wraps_are_named_as_such_by_every_writer_and_every_start) {
  whole_folder f(whole_llama);
  const auto tensors = f.tensors;
  f.write("plain");
  f.folder.write("plain/config.json", whole_llama);
  const std::string projection = "model.layers.0.self_attn.q_proj.";
  const auto add = [&](const std::string& name) {
    f.tensors.emplace_back(name, core::dtype::f32, std::vector<int64_t>{4, 32});
  };
  const auto check_named = [&](const std::string& words) {
    f.write();
    for (const auto& [out, command] : whole_folder::all_exports("hf", true)) {
      f.check_refused(f.troupe(command), words);
      f.check_refused(f.troupe(command), "merge_and_unload()");
      BOOST_TEST(!fs::exists(f.folder / out), out);
    }
    f.check_refused(f.troupe({"train", "job.yaml", "--fresh"}), words, 1);
    const std::vector<std::string> resumed{"train", "job.yaml", "--resume", "hf", "--set", "model.path=plain"};
    f.check_refused(f.troupe(resumed), words, 1);
    f.check_well(f.checkpoint({"inspect", "hf"}), words);
    f.check_well(f.checkpoint({"to-fp32", "hf", "copied.safetensors", "--force"}), words);
  };
  // PEFT's get_peft_model() saves the layer and its adapter, under names with a prefix.
  f.named(projection + "weight").name = projection + "base_layer.weight";
  for (auto& t : f.tensors) t.name = "base_model.model." + t.name;
  add("base_model.model." + projection + "lora_A.default.weight");
  check_named("holds adapters beside weights, with tensors such as 'base_model.model.");
  // PEFT's inject_adapter_in_model() saves names without a prefix.
  f.tensors = tensors;
  f.named(projection + "weight").name = projection + "base_layer.weight";
  add(projection + "lora_B.default.weight");
  check_named(
      "holds adapters beside weights, with tensors such as "
      "'model.layers.0.self_attn.q_proj.base_layer.weight'");
  // The folder contains only an adapter, under the file name of a model.
  f.tensors.clear();
  add("base_model.model." + projection + "lora_A.weight");
  check_named("holds a PEFT adapter, not a whole model, with tensors such as 'base_model.model.model.layers.0.");
}

BOOST_AUTO_TEST_CASE(an_adapter_next_to_whole_weights_is_said_to_be_unused_by_every_writer_and_every_start) {
  const whole_folder f(whole_llama);
  const std::string words = "'adapter_model.safetensors', a PEFT adapter, which transformers applies to the weights";
  f.folder.write("hf/adapter_config.json", R"({"peft_type": "LORA"})");
  f.check_well(f.checkpoint({"to-hf", "hf", "config_alone"}));
  BOOST_TEST(!has(f.checkpoint({"to-hf", "hf", "config_alone", "--force"}).err, "adapter"));
  f.folder.write("hf/adapter_model.safetensors", as_file("{}"));
  for (const auto& [out, command] : whole_folder::exports("hf", true)) f.check_well(f.troupe(command), words);
  f.check_well(f.checkpoint({"to-fp32", "hf", "copied.safetensors"}), words);
  f.check_well(f.checkpoint({"inspect", "hf"}), words);
  f.check_well(f.troupe({"train", "job.yaml"}), words);
  f.check_well(f.troupe({"train", "job.yaml", "--resume", "hf", "--set", "model.path=config_alone"}), words);
}

BOOST_AUTO_TEST_CASE(a_run_does_not_replace_the_weights_that_it_reads) {
  const whole_folder f(whole_llama);
  f.check_well(f.checkpoint({"to-hf", "hf", "other"}));
  fs::create_directory_symlink("hf", f.folder / "link");
  const auto before = scratch_folder::read(f.folder / "hf/model.safetensors");
  const auto refused = [&](const std::string& to, const std::string& key, const std::vector<std::string>& more) {
    std::vector<std::string> all{"train", "job.yaml", "--fresh", "--export", to};
    all.insert(all.end(), more.begin(), more.end());
    const auto r = f.troupe(all);
    f.check_refused(r, "--export: '" + to + "' cannot be replaced: the run reads its weights (" + key + ")");
    BOOST_TEST(!has(r.out, "step 1"), r.out);
    BOOST_TEST(scratch_folder::read(f.folder / "hf/model.safetensors") == before);
  };
  for (const char* to : {"hf", "hf/", "./hf", "link"}) refused(to, "model.path", {});
  refused("hf", "model.path", {"--set", "model.path=hf/model.safetensors"});
  f.folder.write(
      "taught.yaml",
      replaced(job_of_hf, "path: hf",
               "model_type: llama, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 4, "
               "num_key_value_heads: 2, intermediate_size: 64, max_position_embeddings: 32, vocab_size: 256, "
               "tie_word_embeddings: true, teacher: hf") +
          "distillation: {enabled: true}\n");
  f.check_refused(f.troupe({"train", "taught.yaml", "--fresh", "--export", "hf"}),
                  "--export: 'hf' cannot be replaced: the run reads its weights (model.teacher)");
  refused("hf", "checkpoint.load.path", {"--set", "model.path=other", "--set", "checkpoint.load.path=hf"});
  refused("hf", "--resume", {"--set", "model.path=other", "--resume", "hf"});
  f.check_well(f.troupe({"train", "job.yaml", "--fresh", "--export", "other"}));
}

BOOST_AUTO_TEST_CASE(transposed_layers_of_nanogpt_are_named_as_such) {
  whole_folder f;
  auto& t = f.named("transformer.h.0.attn.c_attn.weight");
  t.shape = {96, 32};
  f.write();
  f.check_refused(
      f.checkpoint({"to-hf", "hf", "out"}),
      "tensor 'transformer.h.0.attn.c_attn.weight' must have the shape (32, 96), got (96, 32), its transpose: GPT-2's "
      "linear layers are (in, out) in Hugging Face's files, and (out, in) in nanoGPT's");
}

BOOST_AUTO_TEST_CASE(a_family_that_is_not_known_has_its_embedding_and_layers_compared) {
  whole_folder f(whole_llama);
  auto keys = json::parse(whole_llama);
  keys["model_type"] = "gemma";
  f.folder.write("hf/config.json", keys.dump());
  f.check_well(f.checkpoint({"to-hf", "hf", "same"}));
  keys["num_hidden_layers"] = 2;
  f.folder.write("hf/config.json", keys.dump());
  f.check_refused(f.checkpoint({"to-hf", "hf", "out"}), "says num_hidden_layers 2, but it holds 1 layers");
  keys["num_hidden_layers"] = 1;
  keys["vocab_size"] = 300;
  f.folder.write("hf/config.json", keys.dump());
  f.check_refused(f.checkpoint({"to-hf", "hf", "out"}), "must have the shape (300, 32), got (256, 32)");
}

BOOST_AUTO_TEST_CASE(a_tied_head_with_values_of_its_own_stays_untied_everywhere) {
  whole_folder f(whole_llama);
  const std::string sentence =
      "config.json ties the head to the embedding, but 'lm_head.weight' and 'model.embed_tokens.weight' have different "
      "values: the head keeps its own";
  const double tied = loss_of(f);
  // The head of this model has the values of the embedding.
  auto head = f.named("model.embed_tokens.weight");
  head.name = "lm_head.weight";
  f.tensors.push_back(head);
  f.write();
  BOOST_TEST(loss_of(f) == tied);
  f.check_well(f.checkpoint({"to-hf", "hf", "same"}));
  BOOST_TEST(!has(f.checkpoint({"inspect", "same"}).out, "lm_head"));
  // The head of this model has values of its own.
  auto& own = f.named("lm_head.weight");
  for (size_t i = 0; i < own.data.size() / sizeof(float); ++i)
    whole_folder::set(own, i, static_cast<float>(i % 91) / 500 - 0.09F);
  f.write();
  std::vector<float> wanted(own.data.size() / sizeof(float));
  std::memcpy(wanted.data(), own.data.data(), own.data.size());
  for (const auto& [out, command] : whole_folder::exports("hf", true)) {
    f.check_well(f.troupe(command), sentence);
    if (out == "out_c.gguf" || out == "out_ct") continue;  // these formats store fewer bits and cannot be equal
    BOOST_TEST((values_of(f.folder / out, "lm_head.weight") == wanted), out);
  }
  BOOST_TEST(json::parse(scratch_folder::read(f.folder / "out_hf/config.json"))["tie_word_embeddings"] == false);
  BOOST_TEST(json::parse(scratch_folder::read(f.folder / "out_ct/config.json"))["tie_word_embeddings"] == false);
  const auto planned = f.troupe({"plan", "job.yaml"});
  f.check_well(planned, sentence);
  const auto trained = f.troupe({"train", "job.yaml", "--fresh", "--export", "exported"});
  f.check_well(trained, sentence);
  BOOST_TEST((values_of(f.folder / "exported", "lm_head.weight") == wanted));
  BOOST_TEST(json::parse(scratch_folder::read(f.folder / "exported/config.json"))["tie_word_embeddings"] == false);
  const double untied = loss_of(f);
  BOOST_TEST(untied != tied);
  // The export's config.json states that the head is not tied, and a job that ties it is refused.
  f.folder.write("untied.yaml", replaced(job_of_hf, "path: hf", "path: out_hf"));
  const auto again = check_exit(0, f.troupe({"train", "untied.yaml", "--fresh", "--json"}));
  BOOST_TEST(!has(again.err, "ties the head"), again.err);
  f.folder.write("keys.yaml", replaced(job_of_hf, "path: hf",
                                       "model_type: llama, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: "
                                       "4, num_key_value_heads: 2, intermediate_size: 64, max_position_embeddings: 32, "
                                       "vocab_size: 256, tie_word_embeddings: true"));
  f.check_refused(f.troupe({"train", "keys.yaml", "--resume", "hf"}),
                  "its head has other values than its embedding, and tie_word_embeddings is true in this run's model",
                  1);
}

BOOST_AUTO_TEST_CASE(a_head_without_an_embedding_beside_it_is_the_embedding_where_they_are_tied) {
  whole_folder f(whole_llama);
  const double loss = loss_of(f);
  f.named("model.embed_tokens.weight").name = "lm_head.weight";
  f.write();
  BOOST_TEST(loss_of(f) == loss);
  f.check_well(f.checkpoint({"to-hf", "hf", "written"}));
  const auto there = f.checkpoint({"inspect", "written"}).out;
  BOOST_TEST((has(there, "embed_tokens") && !has(there, "lm_head")), there);
}

BOOST_AUTO_TEST_CASE(values_beyond_the_written_type_are_refused_or_clamped_and_counted) {
  whole_folder f(whole_llama);
  auto& t = f.named("model.layers.0.mlp.up_proj.weight");
  whole_folder::set(t, 5, 70000);
  whole_folder::set(t, 6, -1e6F);
  f.write();
  f.check_well(f.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=1"}));
  auto& norm = f.named("model.norm.weight");
  whole_folder::set(norm, 1, 3.4e38F);
  whole_folder::set(norm, 2, 1e-9F);
  f.write();
  const std::string refused = ": element 5 is 70000, which is out of range for fp16 (at most 65504)";
  const std::vector<std::pair<std::vector<std::string>, int>> commands{
      {{"checkpoint", "to-hf", "hf", "half", "--dtype", "fp16"}, 3},
      {{"checkpoint", "to-deepspeed", "out", "ds", "--dtype", "fp16"}, 2},
      {{"checkpoint", "reshape", "out", "re", "--dtype", "fp16"}, 2},
      {{"checkpoint", "to-gguf", "hf", "half.gguf", "--type", "f16", "--tokenizer", "bytes"}, 2},
      {{"checkpoint", "to-hf", "hf", "brain", "--dtype", "bf16"}, 1},
      {{"compress", "hf", "ct", "--to", "compressed-tensors:int8", "--dtype", "fp16"}, 1}};
  for (auto [command, clamped] : commands) {
    const auto r = f.troupe(command);
    BOOST_TEST(r.code == 1, command[1] << command[3] << r.err);
    BOOST_TEST(has(r.err, "--allow-overflow"), command[1] << ": " << r.err);
    if (clamped == 2) BOOST_TEST(has(r.err, refused), r.err);
    BOOST_TEST(!fs::exists(f.folder / (command[0] == "compress" ? "ct" : command[3])));
    command.emplace_back("--allow-overflow");
    f.check_well(f.troupe(command), fmt::format("{} values outside the range of the type were clamped", clamped));
  }
  const auto half = values_of(f.folder / "half", t.name);
  BOOST_TEST((half[5] == 65504 && half[6] == -65504));
  const auto of_norm = values_of(f.folder / "half", norm.name);
  BOOST_TEST((of_norm[1] == 65504 && of_norm[2] == 0));
  // GGUF stores the scales of blocks in fp16, so this value is out of range.
  whole_folder::set(t, 5, 3e38F);
  f.write();
  f.check_refused(f.checkpoint({"to-gguf", "hf", "q.gguf", "--tokenizer", "bytes"}),
                  "--allow-overflow clamps values that are", 1);
  f.check_well(f.checkpoint({"to-gguf", "hf", "q.gguf", "--tokenizer", "bytes", "--allow-overflow"}),
               "1 values outside the range of the type were clamped");
  // A run that computes in fp16 must not begin with weights that become infinite.
  f.check_refused(f.troupe({"train", "job.yaml", "--fresh", "--set", "fp16.enabled=true"}),
                  "which is out of range for fp16", 1);
}

BOOST_AUTO_TEST_CASE(aliases_of_config_json_act_and_keys_that_nothing_reads_are_refused) {
  whole_folder f;
  f.folder.write("alias.json",
                 R"({"model_type":"gpt2","hidden_size":32,"num_hidden_layers":1,"num_attention_heads":2,
                     "max_position_embeddings":16,"vocab_size":256})");
  f.check_well(f.checkpoint({"to-hf", "hf", "alias", "--model-config", "alias.json"}));
  auto keys = json::parse(whole_gpt2);
  keys["n_embed"] = 32;
  f.folder.write("hf/config.json", keys.dump());
  const std::string words = "model key 'n_embed' is not known and may change the model";
  f.check_refused(f.troupe({"plan", "job.yaml"}), words);
  f.check_refused(f.troupe({"train", "job.yaml"}), words);
  f.check_well(f.troupe({"plan", "job.yaml", "--set", "model.ignore_keys=[n_embed]"}));
  for (auto [out, command] : whole_folder::exports("hf", false)) {
    f.check_refused(f.troupe(command), words);
    command.insert(command.end(), {"--ignore-key", "n_embed"});
    f.check_well(f.troupe(command));
  }
  // A key that is not in the file must be an error, and so must a key if no file describes the model.
  const std::string wrong = "has no key 'n_embd_' to ignore; its unknown keys: 'n_embed'";
  for (auto [out, command] : whole_folder::all_exports("hf", false)) {
    command.insert(command.end(), {"--force", "--ignore-key", "n_embed", "--ignore-key", "n_embd_"});
    f.check_refused(f.troupe(command), "--ignore-key: 'hf/config.json' " + wrong);
    command.insert(command.end(), {"--model-config", "alias.json"});
    f.check_refused(f.troupe(command),
                    "--ignore-key: 'alias.json' has no key 'n_embed' to ignore; all of its keys are known");
  }
  f.check_refused(f.checkpoint({"inspect", "hf", "--print-map", "--ignore-key", "n_embd_"}), wrong);
  f.check_refused(f.checkpoint({"inspect", "hf", "--ignore-key", "n_embed"}),
                  "--ignore-key would do nothing here: it is for --print-map");
  f.check_refused(f.checkpoint({"inspect", "hf", "--model-config", "alias.json"}), "--model-config would do nothing");
  fs::copy_file(f.folder / "hf/model.safetensors", f.folder / "alone.safetensors");
  f.check_refused(f.checkpoint({"to-fp32", "alone.safetensors", "w.pt", "--ignore-key", "n_embed"}),
                  "alone.safetensors' does not describe its model: give Hugging Face's config.json");
  const std::string set = "model.ignore_keys=[n_embed, n_embd_]";
  for (const char* command : {"plan", "train"})
    f.check_refused(f.troupe({command, "job.yaml", "--set", set}),
                    "model.ignore_keys: the config.json of '" + (f.folder / "hf").string() + "' " + wrong);
  // The key ignore_keys may also name keys that Troupe knows, because checkpoints that are loaded later may contain
  // them.
  f.check_well(f.troupe({"plan", "job.yaml", "--set", "model.ignore_keys=[n_embed, n_positions]"}));
  keys.erase("n_embed");
  keys["sliding_window"] = 8;
  f.folder.write("hf/config.json", keys.dump());
  f.check_refused(f.troupe({"plan", "job.yaml"}), "model key 'sliding_window': wanted null, got 8");
}

BOOST_AUTO_TEST_CASE(a_source_that_describes_another_model_is_refused_by_key) {
  whole_folder f(whole_llama);
  f.check_well(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  const std::string own =
      "model_type: llama, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 4, num_key_value_heads: 2, "
      "intermediate_size: 64, max_position_embeddings: 32, vocab_size: 256, tie_word_embeddings: true";
  f.folder.write("job.yaml", replaced(job_of_hf, "path: hf", own));
  f.check_well(f.troupe({"train", "job.yaml", "--resume", "hf", "--fresh"}));
  f.check_well(f.troupe({"train", "job.yaml", "--resume", "m.gguf", "--fresh"}));
  const auto resumed = [&](const std::string& key, const json& value) {
    auto keys = json::parse(whole_llama);
    keys[key] = value;
    f.folder.write("hf/config.json", keys.dump());
    return f.troupe({"train", "job.yaml", "--resume", "hf", "--fresh"});
  };
  const std::string other = "hf' describes another model: ";
  f.check_refused(resumed("rope_theta", 5e5), other + "rope_theta is 5e+05 there and 10000 in this run's model", 1);
  f.check_refused(resumed("rms_norm_eps", 1e-3), other + "rms_norm_eps is 0.001 there and", 1);
  f.check_refused(resumed("hidden_act", "gelu"), other + "hidden_act is gelu there and silu in", 1);
  f.check_refused(resumed("pad_token_id", 3), other + "pad_token_id is 3 there and none in this run's model", 1);
  f.check_refused(resumed("num_attention_heads", 2), other, 1);
  f.check_refused(resumed("rope_scaling", {{"rope_type", "linear"}, {"factor", 2.0}}),
                  other + "rope_scaling is linear, factor 2 there and default in this run's model", 1);
  f.check_refused(resumed("rope_scaling", {{"rope_type", "mrope"}}), other + "model key 'rope_type'", 1);
  f.check_refused(resumed("sliding_window", 8), other + "model key 'sliding_window': wanted null, got 8", 1);
  f.check_refused(resumed("num_local_experts", 8), other + "model key 'num_local_experts'", 1);
  f.check_refused(resumed("model_type", "bloom"), other + "model key 'model_type'", 1);
  f.check_well(f.troupe({"train", "job.yaml", "--resume", "hf", "--fresh", "--set", "model.ignore_keys=[model_type]"}));
  f.check_refused(
      f.troupe({"train", "job.yaml", "--resume", "hf", "--fresh", "--set", "model.ignore_keys=[model_typ]"}),
      "model.ignore_keys: the job's own model has no key 'model_typ' to ignore; all of its keys are known; the model "
      "of '" +
          (f.folder / "hf").string() + "' has no key 'model_typ'");
  // These keys have a meaning only in GGUF files.
  for (const auto& [key, value] : std::vector<std::pair<std::string, formats::gguf_value>>{
           {"llama.rope.freq_base", formats::gguf_value::of(5e5F)},
           {"llama.expert_count", formats::gguf_value::of(uint32_t{8})},
           {"llama.logit_scale", formats::gguf_value::of(0.5F)},
           {"llama.rope.dimension_count", formats::gguf_value::of(uint32_t{4})},
           {"llama.rope.scaling.type", formats::gguf_value::of(std::string("longrope"))}}) {
    add_keys(f.folder / "m.gguf", f.folder / "other.gguf", {{key, value}});
    const auto name = key == "llama.rope.freq_base" ? "rope_theta" : key;
    f.check_refused(f.troupe({"train", "job.yaml", "--resume", "other.gguf", "--fresh"}), name, 1);
  }
}

BOOST_AUTO_TEST_CASE(a_gguf_files_scaling_of_positions_is_carried_and_what_config_json_cannot_say_refused) {
  const whole_folder f(whole_llama);
  f.check_well(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  using formats::gguf_value;
  add_keys(f.folder / "m.gguf", f.folder / "linear.gguf",
           {{"llama.rope.scaling.type", gguf_value::of(std::string("linear"))},
            {"llama.rope.scaling.factor", gguf_value::of(4.0F)}});
  f.check_well(f.checkpoint({"to-hf", "linear.gguf", "linear"}));
  const auto linear = json::parse(scratch_folder::read(f.folder / "linear/config.json"));
  BOOST_TEST(linear["rope_scaling"] == json({{"rope_type", "linear"}, {"factor", 4.0}}));
  f.check_well(f.checkpoint({"to-gguf", "linear", "again.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  f.check_well(f.checkpoint({"to-hf", "again.gguf", "again"}));
  BOOST_TEST(json::parse(scratch_folder::read(f.folder / "again/config.json"))["rope_scaling"] ==
             linear["rope_scaling"]);
  add_keys(f.folder / "m.gguf", f.folder / "yarn.gguf",
           {{"llama.rope.scaling.type", gguf_value::of(std::string("yarn"))},
            {"llama.rope.scaling.factor", gguf_value::of(2.0F)},
            {"llama.rope.scaling.original_context_length", gguf_value::of(uint32_t{16})}});
  f.check_well(f.checkpoint({"to-hf", "yarn.gguf", "yarn"}));
  const auto yarn = json::parse(scratch_folder::read(f.folder / "yarn/config.json"))["rope_scaling"];
  BOOST_TEST(yarn["original_max_position_embeddings"] == 16);
  for (const auto& [key, value] : std::vector<std::pair<std::string, gguf_value>>{
           {"llama.expert_count", gguf_value::of(uint32_t{8})},
           {"llama.logit_scale", gguf_value::of(0.5F)},
           {"llama.rope.dimension_count", gguf_value::of(uint32_t{4})},
           {"llama.rope.scaling.type", gguf_value::of(std::string("su"))}}) {
    add_keys(f.folder / "m.gguf", f.folder / "other.gguf", {{key, value}});
    f.check_refused(f.checkpoint({"to-hf", "other.gguf", "out"}), "model key '" + key + "' is not known");
    f.check_well(f.checkpoint({"to-hf", "other.gguf", "out", "--ignore-key", key, "--force"}));
    BOOST_TEST(!has(scratch_folder::read(f.folder / "out/config.json"), key));
  }
}

BOOST_AUTO_TEST_CASE(a_description_that_is_no_json_is_refused_with_the_place) {
  const whole_folder f(whole_llama);
  f.folder.write("hf/config.json", R"({"rms_norm_eps": NaN})");
  f.check_refused(f.checkpoint({"to-hf", "hf", "out"}),
                  "config.json': wanted a JSON object as Hugging Face's config.json: broken JSON at byte ");
}

BOOST_AUTO_TEST_CASE(a_number_of_a_gguf_file_that_is_no_such_number_is_refused) {
  const whole_folder f(whole_llama);
  f.check_well(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  using formats::gguf_value;
  const std::string base = "llama.rope.freq_base", epsilon = "llama.attention.layer_norm_rms_epsilon",
                    factor = "llama.rope.scaling.factor";
  for (const auto& [key, value, words] : std::vector<std::tuple<std::string, gguf_value, std::string>>{
           {base, gguf_value::of(std::string("500000")), "key '" + base + "' must be a number from 1 on"},
           {base, gguf_value::of(0.0F), "key '" + base + "' must be a number from 1 on, got 0"},
           {epsilon, gguf_value::of(std::nanf("")), "key '" + epsilon + "' must be a number from 0 on, got nan"},
           {epsilon, gguf_value::of(-1e-5F), "key '" + epsilon + "' must be a number from 0 on, got -"},
           {factor, gguf_value::of(std::string("4")), "model key '" + factor + "' is not known"}}) {
    add_keys(f.folder / "m.gguf", f.folder / "other.gguf", {{key, value}});
    f.check_refused(f.checkpoint({"to-hf", "other.gguf", "out"}), words);
  }
  add_keys(f.folder / "m.gguf", f.folder / "causal.gguf", {{"llama.attention.causal", gguf_value::of(true)}});
  f.check_well(f.checkpoint({"to-hf", "causal.gguf", "out"}));
  add_keys(f.folder / "m.gguf", f.folder / "both.gguf", {{"llama.attention.causal", gguf_value::of(false)}});
  f.check_refused(f.checkpoint({"to-hf", "both.gguf", "other"}), "model key 'llama.attention.causal' is not known");
}

BOOST_AUTO_TEST_CASE(a_source_whose_scores_or_activation_differ_is_refused_by_key_and_exports_keep_them) {
  const whole_folder f;
  const auto keys_with = [&](const std::string& key, const json& value) {
    auto keys = json::parse(whole_gpt2);
    keys[key] = value;
    f.folder.write("hf/config.json", keys.dump());
  };
  f.folder.write("job.yaml",
                 replaced(job_of_hf, "path: hf",
                          "model_type: gpt2, n_layer: 1, n_embd: 32, n_head: 2, n_positions: 16, vocab_size: 256, "
                          "resid_pdrop: 0, embd_pdrop: 0, attn_pdrop: 0"));
  for (const auto& [key, value, why] :
       {std::tuple{"scale_attn_weights", json(false), "scale_attn_weights is false there and true in this run's model"},
        std::tuple{"scale_attn_by_inverse_layer_idx", json(true),
                   "scale_attn_by_inverse_layer_idx is true there and false in this run's model"},
        std::tuple{"activation_function", json("quick_gelu"),
                   "activation_function is quick_gelu there and gelu_new in this run's model"}}) {
    keys_with(key, value);
    f.check_refused(f.troupe({"train", "job.yaml", "--resume", "hf", "--fresh"}), why, 1);
    f.check_well(f.checkpoint({"to-hf", "hf", "out_hf", "--force"}));
    BOOST_TEST((json::parse(scratch_folder::read(f.folder / "out_hf/config.json"))[key] == value), key);
  }
}

BOOST_AUTO_TEST_CASE(a_gguf_file_of_an_architecture_that_is_not_known_is_refused_with_a_description_too) {
  const whole_folder f(whole_llama);
  f.check_well(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  add_keys(f.folder / "m.gguf", f.folder / "other.gguf",
           {{"general.architecture", formats::gguf_value::of(std::string("starcoder2"))}});
  auto keys = json::parse(scratch_folder::read(f.folder / "hf/config.json"));
  keys["model_type"] = "starcoder2";
  f.folder.write("starcoder2.json", keys.dump());
  const std::string words = "'other.gguf' has the architecture starcoder2, which is not known here";
  f.check_refused(f.checkpoint({"to-hf", "other.gguf", "out"}), words);
  f.check_refused(f.checkpoint({"to-hf", "other.gguf", "out", "--model-config", "starcoder2.json"}), words);
  f.check_refused(f.checkpoint({"to-gguf", "other.gguf", "out.gguf", "--tokenizer", "bytes"}), words);
  add_keys(f.folder / "m.gguf", f.folder / "near.gguf",
           {{"general.architecture", formats::gguf_value::of(std::string("gemma"))}});
  const std::string near = " has the architecture gemma, which is not known here (the nearest is gemma2)";
  f.check_refused(f.checkpoint({"to-hf", "near.gguf", "out"}), "'near.gguf'" + near);
  f.check_refused(f.troupe({"init", "job2.yaml", "--from", "near.gguf", "--text", "corpus.txt"}),
                  "since near.gguf" + near + ", got none");
  f.check_refused(f.troupe({"init", "job2.yaml", "--model", "m.gguf", "--text", "corpus.txt"}),
                  "got the GGUF file m.gguf: give it as --from");
}

BOOST_AUTO_TEST_CASE(an_adapter_becomes_a_gguf_file_from_which_it_is_merged_as_from_its_folder) {
  const whole_folder f;
  const auto fixture = [](const std::string& name) {
    return (fs::path(places::source_dir) / "tests/models/fixtures" / name).string();
  };
  const std::string adapter = fixture("lora_phi3"), base = fixture("phi3"), keys = base + "/config.json";
  f.check_well(f.checkpoint({"to-gguf", adapter, "a.gguf", "--model-config", keys}), "adapters of 2 layers");
  f.check_well(f.checkpoint({"merge-adapter", base, adapter, "folder"}));
  f.check_well(f.checkpoint({"merge-adapter", base, "a.gguf", "file"}));
  f.check_well(f.checkpoint({"diff", "folder", "file", "--quiet"}));
  f.check_well(f.checkpoint(
      {"to-gguf", fixture("lora_gpt2"), "b.gguf", "--model-config", fixture("gpt2/config.json"), "--type", "bf16"}));
  f.check_refused(f.checkpoint({"merge-adapter", base, "b.gguf", "no"}),
                  "of architecture 'gpt2', and this base's is 'phi3'");
  f.check_refused(f.checkpoint({"to-gguf", adapter, "no.gguf"}),
                  "its base model, 'somebody/tiny-phi3', is not described");
  f.check_refused(f.checkpoint({"to-gguf", adapter, "no.gguf", "--model-config", keys, "--type", "q8_0"}),
                  "--type: wanted f32, f16 or bf16 for an adapter, got 'q8_0'");
  f.check_refused(f.checkpoint({"to-gguf", adapter, "no.gguf", "--model-config", keys, "--tokenizer", "bytes"}),
                  "--tokenizer would do nothing here: it is for checkpoints of whole models, not an adapter");
  f.check_refused(f.checkpoint({"to-gguf", adapter, "no.gguf", "--model-config", keys, "--ema"}),
                  "--ema would do nothing here: it is for checkpoints of whole models, not an adapter");
  f.check_refused(f.checkpoint({"to-gguf", adapter, "no.gguf", "--model-config", fixture("llama/config.json")}),
                  " in the base model");
  f.check_refused(
      f.checkpoint({"to-gguf", fixture("lora_llama"), "no.gguf", "--model-config", fixture("llama/config.json")}),
      "parameter 'lm_head.weight' (modules_to_save): an adapter in GGUF has low-rank matrices alone");
  f.check_refused(f.checkpoint({"to-hf", "a.gguf", "no"}), "it is an adapter, not a whole model");
}

BOOST_AUTO_TEST_CASE(a_gguf_file_of_granite_stores_its_factors) {
  const whole_folder f(R"({"model_type": "granite", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4,
                           "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 32,
                           "vocab_size": 256, "attention_multiplier": 0.0078125, "embedding_multiplier": 12,
                           "residual_multiplier": 0.22, "logits_scaling": 16})");
  f.check_well(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  f.check_well(f.checkpoint({"to-hf", "m.gguf", "back"}));
  const auto back = json::parse(scratch_folder::read(f.folder / "back/config.json"));
  for (const auto& [key, value] : std::vector<std::pair<std::string, double>>{{"attention_multiplier", 0.0078125},
                                                                              {"embedding_multiplier", 12},
                                                                              {"residual_multiplier", 0.22},
                                                                              {"logits_scaling", 16}})
    BOOST_TEST(back.at(key).get<double>() == value, key);
}

BOOST_AUTO_TEST_CASE(a_gguf_file_of_phi3_stores_both_tables_of_longrope) {
  const whole_folder f(R"({"model_type": "phi3", "num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4,
                           "num_key_value_heads": 2, "intermediate_size": 64, "max_position_embeddings": 64,
                           "original_max_position_embeddings": 16, "vocab_size": 256, "pad_token_id": null,
                           "partial_rotary_factor": 0.5, "tie_word_embeddings": true,
                           "rope_scaling": {"type": "longrope", "short_factor": [1, 1.25], "long_factor": [2, 4.5]}})");
  f.check_well(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  f.check_well(f.checkpoint({"to-hf", "m.gguf", "back"}));
  const auto back = json::parse(scratch_folder::read(f.folder / "back/config.json"));
  BOOST_TEST(back.at("partial_rotary_factor") == 0.5);
  BOOST_TEST(back.at("original_max_position_embeddings") == 16);
  const auto& scaling = back.at("rope_scaling");
  BOOST_TEST(scaling.at("rope_type") == "longrope");
  BOOST_TEST(scaling.at("short_factor") == json({1.0, 1.25}));
  BOOST_TEST(scaling.at("long_factor") == json({2.0, 4.5}));
  // 64 positions are 4 times the original 16: sqrt(1 + log(4) / log(16))
  BOOST_TEST(std::abs(scaling.at("attention_factor").get<double>() - std::sqrt(1.5)) < 1e-6);
  f.check_well(f.checkpoint({"to-gguf", "back", "again.gguf", "--type", "f32", "--tokenizer", "bytes"}));
  f.check_well(f.checkpoint({"to-hf", "again.gguf", "again"}));
  BOOST_TEST(json::parse(scratch_folder::read(f.folder / "again/config.json")) == back);
}

BOOST_AUTO_TEST_CASE(an_exported_checkpoint_says_that_a_small_vocabulary_lacks_the_usual_padding_token) {
  command_folder at(
      "model: {model_type: phi3, num_hidden_layers: 1, hidden_size: 32, num_attention_heads: 4, intermediate_size: 64, "
      "max_position_embeddings: 16, vocab_size: 256}\ndata: {text: corpus.txt}\nseed: 1\nsteps: 1\n"
      "train_batch_size: 2\noptimizer: {type: AdamW, params: {lr: 1e-3}}\ncheckpoint: {every_steps: 1}\noutput: out\n");
  check_exit(0, at.troupe({"train", "job.yaml", "--quiet"}));
  for (const std::string to : {"to-hf", "to-universal"}) {
    check_exit(0, at.troupe({"checkpoint", to, "out/checkpoints", to, "--quiet"}));
    const auto keys = json::parse(scratch_folder::read(at.folder / to / "config.json"));
    BOOST_TEST_REQUIRE(keys.contains("pad_token_id"), to);
    BOOST_TEST(keys["pad_token_id"].is_null(), to);
  }
}

BOOST_AUTO_TEST_CASE(a_source_whose_layers_attend_otherwise_is_refused_by_the_key_that_differs) {
  const std::string keys = R"({"model_type": "gemma2", "num_hidden_layers": 2, "hidden_size": 32,
      "num_attention_heads": 4, "intermediate_size": 64, "head_dim": 8, "num_key_value_heads": 4,
      "max_position_embeddings": 32, "vocab_size": 256, "pad_token_id": null, "sliding_window": 8,
      "query_pre_attn_scalar": 16})";
  const whole_folder f(keys);
  std::string own;
  const auto given = json::parse(keys);
  for (const auto& [key, value] : given.items()) own += (own.empty() ? "" : ", ") + key + ": " + value.dump();
  f.folder.write("job.yaml", replaced(job_of_hf, "path: hf", own));
  const auto refused = [&](const std::string& key, const json& value, const std::string& words) {
    auto changed = json::parse(keys);
    changed[key] = value;
    f.folder.write("hf/config.json", changed.dump());
    f.check_refused(f.troupe({"train", "job.yaml", "--resume", "hf", "--fresh"}),
                    "hf' describes another model: " + words, 1);
  };
  refused("layer_types", {"full_attention", "sliding_attention"},
          "layer_types is full_attention in layer 0 there and sliding_attention in layer 0 in this run's model");
  refused("sliding_window", 4, "sliding_window is 4 there and 8 in this run's model");
  refused("query_pre_attn_scalar", 12, "query_pre_attn_scalar is 12 there and 16 in this run's model");
}

BOOST_AUTO_TEST_CASE(models_whose_gguf_files_llama_cpp_does_not_load_are_refused_by_key) {
  const std::string sizes =
      R"("num_hidden_layers": 1, "hidden_size": 32, "num_attention_heads": 4, "intermediate_size": 64, "head_dim": 8,
         "num_key_value_heads": 4, "max_position_embeddings": 32, "vocab_size": 256, "pad_token_id": null, )";
  for (const auto& [type, keys, words] : std::vector<std::tuple<std::string, std::string, std::string>>{
           {"olmo2", R"("tie_word_embeddings": true)", "'tie_word_embeddings' is true, and llama.cpp loads no such"},
           {"olmo2", R"("attention_bias": true)", "'attention_bias' is true"},
           {"gemma2", R"("tie_word_embeddings": false)", "'tie_word_embeddings' is false"},
           {"gemma2", R"("attention_bias": true)", "'attention_bias' is true"},
           {"gemma2", R"("query_pre_attn_scalar": 16)", "'query_pre_attn_scalar' is 16, which"},
           {"gemma3_text", R"("attention_bias": true)", "'attention_bias' is true"},
           {"gemma3_text",
            R"("query_pre_attn_scalar": 8, "rope_scaling": {"rope_type": "yarn", "factor": 4, "attention_factor": 1.5,
               "original_max_position_embeddings": 8})",
            "for layers without a window alone"},
           {"qwen3", R"("attention_bias": true)", "'attention_bias' is true"},
           {"smollm3", R"("attention_bias": true)", "'attention_bias' is true"},
           {"smollm3", R"("mlp_bias": true)", "'mlp_bias' is true"}}) {
    const whole_folder f(R"({"model_type": ")" + type + "\", " + sizes + keys + "}");
    f.check_refused(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}), words);
    BOOST_TEST(!fs::exists(f.folder / "m.gguf"), keys);
  }
  for (const auto& [keys, words] :
       {std::pair<std::string, std::string>{R"("tie_word_embeddings": true)", "'tie_word_embeddings' is true"},
        std::pair<std::string, std::string>{R"("attention_bias": false)", "'attention_bias' is false"}}) {
    const whole_folder f(R"({"model_type": "gpt_neox", "num_hidden_layers": 1, "hidden_size": 32,
                             "num_attention_heads": 4, "intermediate_size": 64, "vocab_size": 256, )" +
                         keys + "}");
    f.check_refused(f.checkpoint({"to-gguf", "hf", "m.gguf", "--type", "f32", "--tokenizer", "bytes"}), words);
  }
}

BOOST_AUTO_TEST_CASE(tokenizer_template_and_generation_files_go_with_the_weights) {
  const whole_folder f;
  const std::vector<std::string> names{"tokenizer_config.json", "chat_template.jinja", "generation_config.json",
                                       "additional_chat_templates/tools.jinja"};
  for (const auto& name : names) f.folder.write("hf/" + name, "{\"of\": \"" + name + "\"}");
  f.check_well(f.checkpoint({"to-hf", "hf", "copied"}));
  f.check_well(f.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=1", "--export", "exported"}));
  f.check_well(f.checkpoint({"to-hf", "out", "of_run"}));
  for (const char* out : {"copied", "exported", "of_run"})
    for (const auto& name : names)
      BOOST_TEST(scratch_folder::read(f.folder / out / name) == scratch_folder::read(f.folder / "hf" / name),
                 out << " " << name);
}

BOOST_AUTO_TEST_CASE(modules_that_auto_map_names_and_vocabularies_of_any_name_go_with_the_weights) {
  const whole_folder f;
  auto config = json::parse(scratch_folder::read(f.folder / "hf/config.json"));
  config["auto_map"] = {{"AutoConfig", "configuration_x.XConfig"},
                        {"AutoModel", "other/repository--modeling_y.Y"},
                        {"AutoModelForCausalLM", "modeling_x.XModel"},
                        {"AutoModelForMaskedLM", "../secret.Stolen"}};
  f.folder.write("hf/config.json", config.dump());
  f.folder.write("hf/tokenizer_config.json", R"({"auto_map": {"AutoTokenizer": ["tokenization_x.XTokenizer", null]}})");
  f.folder.write("secret.py", "print('beside the folder')");
  f.folder.write("hf/unnamed.py", "");
  const std::vector<std::string> names{"modeling_x.py",           "layers_x.py",
                                       "tokenization_x.py",       "x.tiktoken",
                                       "sentencepiece.bpe.model", "tokenizer.model.v3"};
  for (const auto& name : names) f.folder.write("hf/" + name, "from .layers_x import " + name + "\n");
  const std::string missing =
      "auto_map needs Python files that are not next to the weights: configuration_x.py, '../secret.Stolen': ";
  const auto copied = f.checkpoint({"to-hf", "hf", "copied"});
  f.check_well(copied);
  BOOST_TEST(has(copied.err, "warning: " + missing), copied.err);
  BOOST_TEST(!has(copied.err, "modeling_y"), copied.err);
  const auto exported = f.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=1", "--export", "exported"});
  f.check_well(exported);
  BOOST_TEST(has(exported.err, "warning: --export: " + missing), exported.err);
  f.check_well(f.checkpoint({"to-hf", "out", "of_run"}));
  for (const char* out : {"copied", "exported", "of_run"}) {
    for (const auto& name : names)
      BOOST_TEST(scratch_folder::read(f.folder / out / name) == scratch_folder::read(f.folder / "hf" / name),
                 out << " " << name);
    for (const char* name : {"unnamed.py", "secret.py", "configuration_x.py"})
      BOOST_TEST(!fs::exists(f.folder / out / name), out << " " << name);
  }
  f.folder.write("hf/configuration_x.py", "");
  config["auto_map"].erase("AutoModelForMaskedLM");
  f.folder.write("hf/config.json", config.dump());
  const auto whole = f.checkpoint({"to-hf", "hf", "whole"});
  f.check_well(whole);
  BOOST_TEST(!has(whole.err, "auto_map"), whole.err);
}

BOOST_AUTO_TEST_CASE(an_export_without_a_file_next_to_the_weights_says_that_the_weights_are_there) {
  const whole_folder f;
  f.folder.write("hf/generation_config.json",
                 "version https://git-lfs.github.com/spec/v1\noid sha256:" + std::string(64, 'a') + "\nsize 12345\n");
  const auto r = check_exit(3, f.troupe({"train", "job.yaml", "--export", "exported"}));
  BOOST_TEST(has(r.err,
                 "--export: the weights are in 'exported', but not all files next to the model that the run "
                 "began with: "),
             r.err);
  BOOST_TEST(has(r.err, "is a Git LFS pointer"), r.err);
  BOOST_TEST(!has(r.err, "nor can they be written"), r.err);
  BOOST_TEST(fs::exists(f.folder / "exported/model.safetensors"));
  BOOST_TEST(!fs::exists(f.folder / "out/export"));
}

BOOST_AUTO_TEST_CASE(a_file_next_to_the_weights_that_cannot_be_read_is_named) {
  const whole_folder f;
  const auto refused = [&](const std::string& words) {
    const auto got = f.checkpoint({"to-hf", "hf", "copied"});
    BOOST_TEST(got.code != 0);
    BOOST_TEST(has(got.err, words), got.err);
    std::filesystem::remove_all(f.folder / "copied");
  };
  const auto link = f.folder / "hf/tokenizer_config.json";
  std::filesystem::create_symlink("gone.json", link);
  refused("hf/tokenizer_config.json': No such file or directory");
  std::filesystem::remove(link);
  f.folder.write("hf/tokenizer_config.json", "{}");
  f.folder.write("hf/additional_chat_templates", "a file in place of the folder");
  refused("hf/additional_chat_templates': Not a directory");
}

BOOST_AUTO_TEST_CASE(the_order_of_parameters_follows_from_config_json_where_the_checkpoint_stores_none) {
  const whole_folder f;
  f.check_well(f.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=1"}));
  f.check_well(f.checkpoint({"to-dcp", "out", "dcp"}));
  f.check_well(f.checkpoint({"to-deepspeed", "dcp", "ds", "--job", "job.yaml"}));
  f.check_well(f.checkpoint({"to-universal", "dcp", "universal", "--job", "job.yaml"}));
  for (const char* written : {"ds", "universal"}) f.check_well(f.checkpoint({"diff", "out", written}), "equal");
}

BOOST_AUTO_TEST_CASE(folders_with_states_of_an_optimizer_describe_their_model_without_the_original) {
  const whole_folder f;
  f.check_well(f.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=1"}));
  f.check_well(f.checkpoint({"to-hf", "out", "wanted"}));
  for (const std::string to : {"to-deepspeed", "to-universal", "to-dcp", "reshape"}) {
    f.check_well(f.checkpoint({to, "out", to}));
    f.check_well(f.checkpoint({"to-hf", to, to + "_hf"}));
    f.check_well(f.checkpoint({"diff", "wanted", to + "_hf"}), "equal");
  }
}

BOOST_AUTO_TEST_CASE(a_state_dict_has_the_heads_name_where_it_is_tied) {
  const whole_folder f;
  f.check_well(f.troupe({"train", "job.yaml", "--set", "checkpoint.every_steps=1"}));
  f.check_well(f.checkpoint({"to-fp32", "out", "w.pt"}));
  const auto there = f.checkpoint({"inspect", "w.pt"}).out;
  BOOST_TEST(has(there, "lm_head.weight is transformer.wte.weight"), there);
  f.check_well(f.checkpoint({"diff", "out", "w.pt"}), "equal");
}

BOOST_AUTO_TEST_CASE(an_adapter_that_names_another_folder_as_its_base_is_merged_with_a_warning) {
  const command_folder at;
  const auto fixtures = fs::path(troupe::places::source_dir) / "tests/models/fixtures";
  const auto base = (fixtures / "llama").string(), adapter = (at.folder / "adapter").string();
  fs::copy(fixtures / "lora_llama", adapter);
  const auto merge = [&](const std::string& named) {
    auto options = json::parse(std::ifstream(fs::path(adapter) / "adapter_config.json"));
    options["base_model_name_or_path"] = named;
    at.folder.write("adapter/adapter_config.json", options.dump());
    return check_exit(0, at.troupe({"checkpoint", "merge-adapter", base, adapter, "merged", "--force"})).err;
  };
  BOOST_TEST(!has(merge("somebody/llama"), "warning"));
  BOOST_TEST(!has(merge(base + "/../llama"), "warning"));
  const auto other = at.folder.path().string();
  BOOST_TEST(has(merge(other), "warning: the base of the adapter '" + adapter + "' is '" + other +
                                   "', and it is added to '" + base + "'"));
}

BOOST_AUTO_TEST_CASE(every_export_warns_of_a_cap_of_logits_that_only_the_run_knows) {
  const std::string capped = "loss: {logit_soft_cap: 30}\ncheckpoint: {every_steps: 1}\n";
  const std::string named = "its run caps logits at 30 (loss.logit_soft_cap), which config.json cannot say";
  const whole_folder f(whole_gpt2, job_of_hf + capped);
  f.check_well(f.troupe({"train", "job.yaml"}));
  for (const std::string to : {"to-hf", "to-dcp", "to-deepspeed", "to-universal", "reshape"})
    f.check_well(f.checkpoint({to, "out", to}), named);
  f.check_well(f.checkpoint({"to-fp32", "out", "w.safetensors"}), named);
  f.check_well(f.checkpoint({"to-gguf", "out", "w.gguf", "--type", "f32", "--tokenizer", "bytes"}), named);
  f.check_well(f.troupe({"compress", "out/checkpoints", "q.gguf", "--to", "gguf:q8_0", "--validate", "none"}), named);
  const whole_folder adapted(whole_llama, job_of_hf + capped + "lora: {r: 2, targets: q_proj}\n");
  adapted.check_well(adapted.troupe({"train", "job.yaml"}));
  adapted.check_well(adapted.checkpoint({"to-peft", "out", "adapter"}), named);
  // A command that computes with the cap does not warn of it.
  const auto evaluated = check_exit(0, f.troupe({"evaluate", "out", "--text", "corpus.txt"}));
  BOOST_TEST(!has(evaluated.err, "caps logits"), evaluated.err);
}

BOOST_AUTO_TEST_SUITE_END()
