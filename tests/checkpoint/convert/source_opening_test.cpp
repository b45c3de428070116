// Tests recognising and opening checkpoints of every format, and refusing everything else.
#include "checkpoint/convert/open_source.hpp"

#include <cmath>
#include <cstring>
#include <limits>

#include "checkpoint/commit/tag_validation.hpp"
#include "formats/report/diff.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "formats/source/source_reader.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/zip_reader.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(source_opening)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
using core::dtype;
namespace fs = std::filesystem;

namespace {

/// Returns all bytes of a tensor.
std::vector<std::byte> all_of(const tensor_source& s, const std::string& name, tensor_kind kind) {
  const auto* t = find_tensor(s, name, kind);
  BOOST_TEST_REQUIRE(t != nullptr, name);
  std::vector<std::byte> out(bytes_of(t->type, t->shape).value());
  source_reader reader(s);
  check_ok(reader.read(*t, 0, core::numel_of(t->shape), out));
  return out;
}

fs::path save(const fs::path& root, uint64_t step) {
  auto folder = check_ok(save_sample(real_files(), root, step, sample_tensors(step), 2));
  return *folder;
}

}  // namespace

BOOST_AUTO_TEST_CASE(our_checkpoint_opens_by_itself_by_latest_and_by_tag) {
  const scratch_folder scratch;
  save(scratch.path(), 3);
  const auto newest = save(scratch.path(), 4);
  const auto check = [&](const core::result<tensor_source>& s, uint64_t step) {
    check_ok(s);
    BOOST_TEST(s->format == "troupe");
    BOOST_TEST(s->run.steps.value() == step);
    BOOST_TEST(same_bytes(all_of(*s, "h.0.weight", tensor_kind::master), sample_tensors(step)[0].data));
  };
  check(open_source(newest), 4);
  check(open_source(scratch.path()), 4);
  check(open_source(scratch.path(), {.tag = "step-00000003"}), 3);
  check_failed(open_source(scratch.path(), {.tag = "step-00000009"}), error_kind::bad_input, "step-00000009");
  check_failed(open_source(scratch.path(), {.tag = "../x"}), error_kind::bad_input, "not the name of a folder");
}

BOOST_AUTO_TEST_CASE(a_checkpoint_that_cannot_be_opened_is_passed_over_only_if_asked_for) {
  const scratch_folder scratch;
  save(scratch.path(), 1);
  save(scratch.path(), 2);
  fs::resize_file(save(scratch.path(), 3) / "shard-00001.bin", 100);
  fs::resize_file(scratch.path() / "step-00000002" / "manifest.json", 50);
  check_failed(open_source(scratch.path()), error_kind::bad_input, "shard-00001.bin");
  std::vector<std::string> said;
  const source_options generous{.fallback_to_previous = true, .say = [&](const std::string& s) { said.push_back(s); }};
  const auto found = check_ok(open_source(scratch.path(), generous));
  BOOST_TEST(found->run.steps.value() == 1U);
  std::string all;
  for (const auto& line : said) all += line + '\n';
  for (const char* name : {"step-00000003", "shard-00001.bin", "step-00000002", "used instead: '"})
    BOOST_TEST_CONTEXT(name) BOOST_TEST(all.find(name) != std::string::npos, all);
  // The message offers the older checkpoint also if `latest` is missing or damaged.
  for (const bool gone : {true, false}) {
    BOOST_TEST_INFO_SCOPE("gone " << gone);
    fs::remove(scratch.path() / "latest");
    if (!gone) scratch.write("latest", "step-00000007\nxyz\n");
    check_failed(open_source(scratch.path()), error_kind::bad_input, "latest");
    const auto again = check_ok(open_source(scratch.path(), generous));
    BOOST_TEST(again->run.steps.value() == 1U);
  }
  fs::remove(scratch.path() / "step-00000001" / "manifest.json");
  check_failed(open_source(scratch.path(), generous), error_kind::bad_input, "latest");
}

BOOST_AUTO_TEST_CASE(an_error_of_the_newest_says_how_an_older_one_is_taken_where_there_is_one) {
  const scratch_folder scratch;
  save(scratch.path(), 1);
  const auto newest = save(scratch.path(), 2);
  const std::string words = "--fallback-to-previous takes step-00000001 instead";
  const auto text_of = [&](const source_options& options, const fs::path& path) {
    const auto s = open_source(path, options);
    BOOST_REQUIRE(!s.has_value());
    return s.error().text;
  };
  const auto says = [&](const source_options& options, const std::string& what) {
    return text_of(options, scratch.path()).find(what) != std::string::npos;
  };
  fs::resize_file(newest / "manifest.json", 50);
  BOOST_TEST(says({}, words));
  BOOST_TEST(
      says({.older_by = "fallback_to_previous=True"}, "; fallback_to_previous=True takes step-00000001 instead"));
  // The message does not offer the option if it would have no effect.
  BOOST_TEST(!says({.older_by = ""}, "instead"));
  BOOST_TEST(!says({.tag = "step-00000002"}, "instead"));
  BOOST_TEST(text_of({}, newest).find("instead") == std::string::npos);
  for (const std::string latest : {"step-00000007\n", "step-00000007\nxyz\n", ""}) {
    if (!latest.empty()) scratch.write("latest", latest);
    if (latest.empty()) fs::remove(scratch.path() / "latest");
    BOOST_TEST(says({}, words), latest);
  }
  fs::remove(scratch.path() / "step-00000001" / "manifest.json");
  BOOST_TEST(!says({}, "instead"));
}

BOOST_AUTO_TEST_CASE(bytes_of_an_archive_that_do_not_match_their_crc_32_are_not_used) {
  const scratch_folder at;
  const fs::path folder = at / "ck";
  fs::copy(fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed/stage2_bf16", folder,
           fs::copy_options::recursive);
  fs::copy(folder / "step2", folder / "step1", fs::copy_options::recursive);
  const std::string name = "ck/step2/bf16_zero_pp_rank_0_mp_rank_00_optim_states.pt";
  std::string content = scratch_folder::read(at / name);
  const auto list = check_ok(read_zip(std::as_bytes(std::span(content))));
  const auto values_in = [](const zip_entry& e) { return e.name.find("/data/") == e.name.npos ? 0 : e.bytes; };
  const auto longest = *std::ranges::max_element(list->entries, {}, values_in);
  content[longest.begin + longest.bytes / 2] ^= 1;
  at.write(name, content);

  // Returns the errors of reading the tensors.
  const auto errors_of = [](const tensor_source& s) {
    std::vector<core::error> out;
    for (const auto& t : s.tensors) {
      std::vector<std::byte> bytes(bytes_of(t.type, t.shape).value());
      source_reader reader(s);
      if (auto ok = reader.read(t, 0, core::numel_of(t.shape), bytes); !ok) out.push_back(ok.error());
    }
    return out;
  };
  const auto newest = check_ok(open_source(folder));
  const auto errors = errors_of(*newest);
  BOOST_TEST_REQUIRE(!errors.empty());
  for (const auto& e : errors) {
    BOOST_TEST((e.kind == error_kind::bad_input));
    BOOST_TEST(e.text.find((at / name).string()) != std::string::npos, e.text);
    BOOST_TEST(e.text.find(std::string(sum_differs)) != std::string::npos, e.text);
  }
  BOOST_TEST(with_way_around(errors.front(), folder, {}).text ==
             errors.front().text + "; it is in the newest checkpoint of '" + folder.string() +
                 "': --fallback-to-previous takes the newest that is whole instead");

  const auto older = check_ok(open_source(folder, {.fallback_to_previous = true}));
  BOOST_TEST(errors_of(*older).empty());
  for (const auto& f : older->files) BOOST_TEST(f.path.string().find("/step1/") != std::string::npos, f.path.string());

  // A writer that computes no CRC-32 stores 0 in the directory; such an entry is used as it is.
  content.replace(content.rfind(std::string(longest.name)) - 30, 4, 4, '\0');
  at.write(name, content);
  const auto unsummed = check_ok(open_source(folder));
  BOOST_TEST(errors_of(*unsummed).empty());
}

BOOST_AUTO_TEST_CASE(bytes_are_compared_with_the_list_that_the_opening_of_the_source_has_read) {
  const scratch_folder at;
  const owned_tensor w{"w", dtype::f32, {16}};
  check_ok(write_torch_archive(at / "w.pt", std::vector<tensor_to_write>{w.to_write()}));
  const auto whole = open_source(at / "w.pt"), damaged = open_source(at / "w.pt");
  check_ok(whole);
  check_ok(damaged);
  // The archive loses its list after the sources were opened.
  std::string content = scratch_folder::read(at / "w.pt");
  const auto list = content.find("PK\1\2");
  BOOST_TEST_REQUIRE(list != std::string::npos);
  std::fill(content.begin() + static_cast<std::ptrdiff_t>(list), content.end(), '\0');
  at.write("w.pt", content);
  BOOST_TEST(same_bytes(all_of(*whole, "w", tensor_kind::weight), w.data));
  const auto& t = damaged->tensors[0];
  content[t.pieces[0].offset_bytes + 5] ^= 1;
  at.write("w.pt", content);
  std::vector<std::byte> bytes(64);
  check_failed(source_reader(*damaged).read(t, 0, 16, bytes), error_kind::bad_input, std::string(sum_differs));
  // A source has one record of compared entries, which its copies share.
  check_ok(source_reader(tensor_source(*whole)).read(t, 0, 16, bytes));
}

BOOST_AUTO_TEST_CASE(damaged_bytes_of_the_newest_say_how_an_older_one_is_taken) {
  const scratch_folder scratch;
  save(scratch.path(), 1);
  const auto newest = save(scratch.path(), 2);
  const auto error_of = [&](const fs::path& at) {
    return core::error{error_kind::bad_input,
                       "'" + (at / "shard-00000.bin").string() + "': " + std::string(digest_differs)};
  };
  const std::string words = "; --fallback-to-previous takes the newest that is whole instead";
  const auto text = [&](const fs::path& at, const source_options& options = {}) {
    return with_way_around(error_of(at), scratch.path(), options).text;
  };
  BOOST_TEST(text(newest) == error_of(newest).text + words);
  BOOST_TEST(text(newest, {.fallback_to_previous = true}) == error_of(newest).text);
  BOOST_TEST(text(newest, {.tag = "step-00000002"}) == error_of(newest).text);
  BOOST_TEST(with_way_around(error_of(newest), newest, {}).text == error_of(newest).text);
  BOOST_TEST(with_way_around({error_kind::mismatch, "shapes"}, scratch.path(), {}).text == "shapes");
  fs::remove_all(scratch.path() / "step-00000001");
  BOOST_TEST(text(newest) == error_of(newest).text);
}

BOOST_AUTO_TEST_CASE(folders_and_files_of_hugging_face_hold_weights) {
  const scratch_folder scratch;
  const std::vector<owned_tensor> tensors{
      {"wte.weight", dtype::f32, {30, 4}}, {"h.0.bias", dtype::bf16, {7}}, {"empty", dtype::f16, {0, 2}}};
  check_ok(write_weights_folder(scratch.path(), all_to_write(tensors), 200));
  scratch.write("config.json", R"({"model_type": "gpt2"})");
  for (const auto& path : {scratch.path(), scratch.path() / "model-00001-of-00002.safetensors"}) {
    const auto s = check_ok(open_source(path));
    BOOST_TEST(s->format == "Hugging Face");
    BOOST_TEST(s->run.model == R"({"model_type": "gpt2"})");
    BOOST_TEST(!s->run.steps.has_value());
    for (const auto& t : tensors)
      if (find_tensor(*s, t.name, tensor_kind::weight) != nullptr || path == scratch.path())
        BOOST_TEST(same_bytes(all_of(*s, t.name, tensor_kind::weight), t.data));
  }
  // The cache of Hugging Face's hub contains links instead of files.
  fs::create_directories(scratch / "cache");
  fs::create_symlink(scratch / "model-00001-of-00002.safetensors", scratch / "cache" / "model.safetensors");
  const auto linked = check_ok(open_source(scratch / "cache"));
  source_reader reader(*linked);
  std::vector<std::byte> out(480);
  check_ok(reader.read_as(dtype::f32, linked->tensors[0], 0, 1, out));
}

BOOST_AUTO_TEST_CASE(an_index_of_any_name_stands_for_its_shards) {
  const scratch_folder scratch;
  const std::vector<owned_tensor> tensors{{"wte.weight", dtype::f32, {30, 4}}, {"h.0.bias", dtype::bf16, {7}}};
  check_ok(write_weights_folder(scratch.path(), all_to_write(tensors), 200));
  scratch.write("config.json", R"({"model_type": "gpt2"})");
  const auto check = [&](const fs::path& path, size_t count) {
    const auto s = check_ok(open_source(path));
    BOOST_TEST(s->format == "Hugging Face");
    BOOST_TEST(s->run.model == R"({"model_type": "gpt2"})");
    BOOST_TEST(s->tensors.size() == count);
    for (const auto& t : tensors)
      if (find_tensor(*s, t.name, tensor_kind::weight) != nullptr)
        BOOST_TEST(same_bytes(all_of(*s, t.name, tensor_kind::weight), t.data));
  };
  check(scratch / "model.safetensors.index.json", 2);
  fs::rename(scratch / "model.safetensors.index.json", scratch / "model.fp16.safetensors.index.json");
  check(scratch.path(), 2);
  check(scratch / "model.fp16.safetensors.index.json", 2);
  scratch.write("foo.safetensors.index.json", R"({"weight_map": {"wte.weight": "model-00001-of-00002.safetensors"}})");
  check(scratch / "foo.safetensors.index.json", 1);
  check_failed(open_source(scratch.path()), error_kind::bad_input, "has 2 index files of weights: name one of them");
  check_ok(write_torch_archive(scratch / "part-1.bin", std::vector<tensor_to_write>{tensors[0].to_write()}));
  check_ok(write_torch_archive(scratch / "part-2.bin", std::vector<tensor_to_write>{tensors[1].to_write()}));
  scratch.write("any.bin.index.json", R"({"weight_map": {"wte.weight": "part-1.bin", "h.0.bias": "part-2.bin"}})");
  check(scratch / "any.bin.index.json", 2);
  check_failed(open_source(scratch.write("out.bin.index.json", R"({"weight_map": {"a": "../part-1.bin"}})")),
               error_kind::bad_input, "not a file of its folder");
  check_failed(open_source(scratch.write("no.bin.index.json", "[]")), error_kind::bad_input, "no.bin.index.json");
}

BOOST_AUTO_TEST_CASE(anything_but_a_checkpoint_is_refused_with_the_files_that_were_looked_for) {
  const scratch_folder scratch;
  check_failed(open_source(scratch / "nowhere"), error_kind::bad_input, "does not exist");
  check_failed(open_source(scratch.path()), error_kind::bad_input,
               "is not a checkpoint: it holds neither manifest.json");
  const auto text = scratch.write("notes.txt", "just a few words");
  check_failed(open_source(text), error_kind::bad_input, "is not a safetensors file, a torch.save file");
  check_failed(open_source(scratch.write("empty", "")), error_kind::bad_input, "is not a safetensors file");
  check_failed(open_source(text, {.tag = "global_step1"}), error_kind::bad_input, "is a file");
  for (const char* name : {"../outside", "/etc", "", ".."}) {
    scratch.write("latest", name);
    check_failed(open_source(scratch.path()), error_kind::bad_input, "not the name of a folder");
  }
  scratch.write("latest", "global_step7\n");
  check_failed(open_source(scratch.path()), error_kind::bad_input, "there is no such folder");
  fs::create_directories(scratch / "global_step7");
  check_failed(open_source(scratch.path()), error_kind::bad_input, "is not a checkpoint");
  scratch.write("latest", std::string(5'000, 'x'));
  check_failed(open_source(scratch.path()), error_kind::limit, "latest");
}

BOOST_AUTO_TEST_CASE(pointers_of_git_lfs_are_refused_as_such_in_the_place_of_every_file) {
  const std::string pointer = "version https://git-lfs.github.com/spec/v1\noid sha256:4d7a2146\nsize 12345\n";
  for (const std::string name : {"model.safetensors", "pytorch_model.bin", "model.gguf", "a.pt", ".metadata",
                                 "model.safetensors.index.json", "latest", "mp_rank_00_model_states.pt"}) {
    BOOST_TEST_CONTEXT(name) {
      const scratch_folder scratch;
      scratch.write(name, pointer);
      const bool is_file = name == "a.pt" || name == "model.gguf";
      check_failed(open_source(is_file ? scratch / name : scratch.path()), error_kind::bad_input,
                   "is a Git LFS pointer and not the file itself, which has 12345 bytes: run `git lfs pull`");
    }
  }
  const scratch_folder scratch;  // the folder has one of several shards, and the model's description
  const std::vector<owned_tensor> tensors{{"a", dtype::f32, {30, 4}}, {"b", dtype::f32, {7}}};
  check_ok(write_weights_folder(scratch.path(), all_to_write(tensors), 200));
  scratch.write("config.json", pointer);
  check_failed(open_source(scratch.path()), error_kind::bad_input, "config.json' is a Git LFS pointer");
  fs::remove(scratch / "config.json");
  scratch.write("model-00002-of-00002.safetensors", pointer);
  check_failed(open_source(scratch.path()), error_kind::bad_input,
               "model-00002-of-00002.safetensors' is a Git LFS pointer");
}

BOOST_AUTO_TEST_CASE(ranks_that_name_different_checkpoints_are_reported) {
  const std::vector<std::string> same{"a", "a", "a"}, other{"a", "a", "b"};
  std::vector<std::string> said;
  const auto say = [&](const std::string& s) { said.push_back(s); };
  check_ok(validate_tags(same, tag_validation::fail, say));
  check_ok(validate_tags(other, tag_validation::ignore, say));
  BOOST_TEST(said.empty());
  check_ok(validate_tags(other, tag_validation::warn, say));
  BOOST_TEST(said == std::vector<std::string>{"ranks name different checkpoints: rank 0 'a', rank 2 'b'"});
  check_failed(validate_tags(other, tag_validation::fail, say), error_kind::mismatch, "rank 2 'b'");
}

BOOST_AUTO_TEST_CASE(deepspeed_folders_and_files_of_torch_open_with_or_without_their_tag) {
  const fs::path root = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed_gpt2/stage2_fp32";
  for (const auto& s :
       {open_source(root), open_source(root / "global_step3"), open_source(root, {.tag = "global_step3"})}) {
    check_ok(s);
    BOOST_TEST(find_tensor(*s, "transformer.wte.weight", tensor_kind::moment, "exp_avg") != nullptr);
    BOOST_TEST(s->run.steps.value() == 3U);
  }
  // A single file of the folder can be opened alone: it contains the module's tensors, including the tied head.
  const auto file = check_ok(open_source(root / "global_step3" / "mp_rank_00_model_states.pt"));
  BOOST_TEST(file->format == "torch.save");
  BOOST_TEST(find_tensor(*file, "lm_head.weight", tensor_kind::weight) ==
             find_tensor(*file, "transformer.wte.weight", tensor_kind::weight));
}

BOOST_AUTO_TEST_CASE(differences_of_large_integers_are_those_of_integers) {
  const scratch_folder at;
  const auto written = [&](const char* name, const std::vector<int64_t>& values) {
    owned_tensor t("steps", dtype::i64, {static_cast<int64_t>(values.size())});
    std::memcpy(t.data.data(), values.data(), t.data.size());
    check_ok(write_weights_folder(at / name, all_to_write({t})));
    return check_ok(open_source(at / name));
  };
  constexpr int64_t large = int64_t{1} << 62, least = std::numeric_limits<int64_t>::min();
  const auto first = written("first", {large, 5, least}), second = written("second", {large + 100, 5, least});
  const auto far = written("far", {large, 5, -(least + 1)});
  const auto report = [&](const auto& a, const auto& b, std::optional<double> tolerance) {
    return *check_ok(diff_sources(real_files(), *a, *b, {.tolerance = tolerance, .progress = {}}));
  };
  for (const auto tolerance : {std::optional<double>(), std::optional(0.0), std::optional(99.0)}) {
    const auto found = report(first, second, tolerance);
    BOOST_REQUIRE(found.differences.size() == 1U);
    BOOST_TEST(found.differences[0].elements == 1U);
    BOOST_TEST(found.differences[0].largest == 100.0);
  }
  BOOST_TEST(report(first, second, 100.0).differences.empty());
  BOOST_TEST(report(first, far, 0.0).differences.at(0).largest == std::ldexp(1.0, 64));
}

BOOST_AUTO_TEST_SUITE_END()
