// Tests DeepSpeed's universal layout as Troupe writes it, file by file. tests/peer/deepspeed_resumes_ours.py lets
// DeepSpeed itself load it at every stage.
#include "formats/deepspeed/write/universal_writer.hpp"

#include "formats/deepspeed/universal_source.hpp"
#include "formats/torch/archive.hpp"
#include "tests/formats/archive_bytes.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(universal_writer)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using core::dtype;

namespace {

std::optional<int64_t> integer_of(const torch_archive& file, std::string_view key) {
  const auto v = file.tree().find(file.root(), key);
  return v ? std::optional(file.tree().integer(*v)) : std::nullopt;
}

/// Checks that the file's `param` has this shape and that its bytes are the first bytes of `data`.
void check_param(const torch_archive& file, const std::vector<int64_t>& shape, const std::vector<std::byte>& data) {
  const auto v = check_ok(file.tree().find(file.root(), "param"));
  const auto t = check_ok(file.tensor(*v));
  BOOST_TEST(t->shape == shape, boost::test_tools::per_element());
  const size_t bytes = t->numel * sizeof(float);
  BOOST_REQUIRE(bytes <= data.size());
  BOOST_TEST(same_bytes(bytes_at(file, t->begin, bytes), std::span(data).first(bytes)));
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_state_of_every_parameter_has_a_file_of_its_own) {
  for (uint64_t seed = 1; seed <= 4; ++seed) {
    const scratch_folder at;
    const random_source drawn(seed, seed % 2 == 0 ? dtype::bf16 : dtype::f32, at.path());
    auto source = drawn.source;
    source.parameter_order.clear();  // the writer needs only the names, not their order
    const auto folder = at / "universal/made";
    const auto written =
        check_ok(write_universal_folder(source, folder, {.weight_type = seed % 2 == 0 ? dtype::bf16 : dtype::f32}));
    size_t parameters = 0;
    for (const auto& t : source.tensors) {
      if (t.kind != tensor_kind::master && t.kind != tensor_kind::moment) continue;
      const auto file = check_ok(torch_archive::open(folder / "zero" / t.name /
                                                     (t.kind == tensor_kind::master ? "fp32.pt" : t.moment + ".pt")));
      check_param(*file, t.shape, bytes_in(source, t));
      BOOST_TEST(integer_of(*file, "cat_dim").value_or(-1) == 0);
      if (t.kind == tensor_kind::master) {
        ++parameters;
        check_ok(torch_archive::open(folder / "zero" / t.name / "step.pt"));
      }
    }
    const auto back = check_ok(read_universal_source(folder));
    for (const auto& t : source.tensors) {
      if (t.kind != tensor_kind::master && t.kind != tensor_kind::moment) continue;
      const auto* found = find_tensor(*back, t.name, t.kind, t.moment);
      BOOST_REQUIRE_MESSAGE(found != nullptr, "missing: " << shown(t));
      BOOST_TEST((found->shape == t.shape && found->type == t.type && bytes_in(*back, *found) == bytes_in(source, t)));
    }
    BOOST_TEST(back->run.steps.value_or(0) == 12U);
    BOOST_TEST(written->files == 4 * parameters + 3);
    BOOST_TEST(files_in(folder / "zero") == parameters + 1);
    const auto once = check_ok(torch_archive::open(folder / "zero/optimizer_state.pt"));
    for (const char* key : {"loss_scaler", "ds_version", "param_groups", "optimizer_state_dict"})
      BOOST_TEST(once->tree().find(once->root(), key).has_value(), key);
    for (const char* name : {"mp_rank_00_model_states.pt", "zero_pp_rank_0_mp_rank_00_model_states.pt"})
      check_ok(torch_archive::open(folder / name));
    BOOST_TEST(std::filesystem::file_size(at / "universal/latest_universal") == 4U);
  }
}

BOOST_AUTO_TEST_CASE(parameters_of_different_saves_are_refused_by_their_steps) {
  const scratch_folder at;
  const random_source drawn(9, dtype::f32, at.path());
  BOOST_TEST_REQUIRE(std::ranges::count(drawn.source.tensors, tensor_kind::master, &tensor_entry::kind) > 1);
  auto later = drawn.source;
  later.run.applied_updates = 11;
  check_ok(write_universal_folder(drawn.source, at / "early", {}));
  check_ok(write_universal_folder(later, at / "late", {.integer_step = true}));
  const auto late = check_ok(read_universal_source(at / "late"));
  BOOST_TEST(late->run.applied_updates.value_or(0) == 11U);
  BOOST_TEST(late->remarks.empty());
  std::filesystem::copy_file(at / "late/zero/layer.0.weight/step.pt", at / "early/zero/layer.0.weight/step.pt",
                             std::filesystem::copy_options::overwrite_existing);
  check_failed(read_universal_source(at / "early"), error_kind::bad_input, "they are from different saves");
  check_failed(read_universal_source(at / "early"), error_kind::bad_input, "layer.0.weight/step.pt");
}

BOOST_AUTO_TEST_CASE(a_model_file_whose_weights_are_not_the_masters_is_of_another_save) {
  const scratch_folder at, blank;
  const random_source drawn(9, dtype::f32, at.path()), other(9, dtype::f32, blank.path());
  const auto& data = other.source.files[0];
  std::filesystem::resize_file(data.path, 0);
  std::filesystem::resize_file(data.path, data.bytes);  // the extended file contains zeros, so every weight is 0
  auto later = other.source;
  later.run.applied_updates = 11;
  check_ok(write_universal_folder(drawn.source, at / "own", {}));
  check_ok(write_universal_folder(later, at / "later", {}));
  const auto name = "mp_rank_00_model_states.pt";
  std::filesystem::copy_file(at / "later" / name, at / "own" / name, std::filesystem::copy_options::overwrite_existing);
  const auto mixed = read_universal_source(at / "own");
  check_failed(mixed, error_kind::bad_input,
               "mp_rank_00_model_states.pt' counts 11 updates (global_steps 12 less the skipped ones), the optimizer "
               "10 in '");
  check_failed(mixed, error_kind::bad_input, "step.pt', where the master of '");
}

BOOST_AUTO_TEST_CASE(a_lost_parameter_is_refused_and_a_folder_that_the_model_does_not_list_is_named) {
  const scratch_folder at;
  const random_source drawn(9, dtype::f32, at.path());
  const auto folder = at / "made";
  check_ok(write_universal_folder(drawn.source, folder, {}));
  const auto whole = check_ok(read_universal_source(folder));
  BOOST_TEST(whole->remarks.empty());
  std::filesystem::copy(folder / "zero/layer.0.weight", folder / "zero/older.weight");
  const auto more = check_ok(read_universal_source(folder));
  BOOST_TEST_REQUIRE(more->remarks.size() == 1U);
  BOOST_TEST(more->remarks[0] ==
             "left out: folders under zero that param_shapes of the model file does not list (1): older.weight");
  BOOST_TEST(more->tensors.size() == whole->tensors.size());
  std::filesystem::remove(folder / "zero/layer.0.weight/fp32.pt");
  check_failed(read_universal_source(folder), error_kind::bad_input,
               "zero/layer.0.weight/fp32.pt' is missing, although param_shapes of '");
  std::filesystem::remove_all(folder / "zero/layer.0.weight");
  const auto lost = read_universal_source(folder);
  check_failed(lost, error_kind::bad_input, "mp_rank_00_model_states.pt' lists the parameter (1 of 2 are missing)");
  check_failed(lost, error_kind::bad_input, "copy the folder again, or convert the checkpoint again");
}

BOOST_AUTO_TEST_CASE(patterns_tell_how_tensor_parallel_engines_cut) {
  const scratch_folder at;
  const random_source drawn(9, dtype::f32, at.path());
  const auto& source = drawn.source;
  const auto* matrix = find_tensor(source, "layer.0.weight", tensor_kind::master);
  const auto written_with = [&](const published_patterns& patterns, const std::string& folder) {
    check_ok(write_universal_folder(source, at / folder, {}, patterns));
    auto file = check_ok(torch_archive::open(at / folder / "zero" / matrix->name / "fp32.pt"));
    return std::move(*file);
  };
  const std::string name = "^" + matrix->name + "$";
  BOOST_TEST(integer_of(written_with({.replicated = {name}}, "a"), "cat_dim").has_value() == false);
  BOOST_TEST(integer_of(written_with({.row_parallel = {name}}, "b"), "cat_dim").value_or(-1) == 1);
  BOOST_TEST(integer_of(written_with({.two_parts = {name}}, "c"), "param_n_sub_params").value_or(-1) == 2);
  published_patterns vocabulary{.vocabulary = {name}};
  vocabulary.original_vocab_size = static_cast<uint64_t>(matrix->shape[0]) - 1;
  const auto file = written_with(vocabulary, "d");
  check_param(file, {matrix->shape[0] - 1, matrix->shape[1]}, bytes_in(source, *matrix));
  BOOST_TEST(file.tree().boolean(*file.tree().find(file.root(), "vocab_tensor")));
}

BOOST_AUTO_TEST_CASE(impossible_options_are_refused_before_a_byte_is_written) {
  const scratch_folder at;
  const random_source drawn(5, dtype::f32, at.path());
  const auto refused = [&](const deepspeed_write_options& o, const published_patterns& patterns, const char* words) {
    check_failed(write_universal_folder(drawn.source, at / "new/made", o, patterns), error_kind::bad_input, words);
    BOOST_TEST(!std::filesystem::exists(at / "new"));
  };
  deepspeed_write_options outside;
  outside.name = [](const std::string& name) { return "../" + name; };
  refused(outside, {}, "cannot name a folder");
  refused({}, {.replicated = {"("}}, "wanted an RE2 pattern");
  refused({}, {.vocabulary = {"layer"}}, "the original vocabulary's size");
  published_patterns too_many{.vocabulary = {"layer"}};
  too_many.original_vocab_size = 1'000'000;
  refused({}, too_many, "is not the matrix of a vocabulary: wanted 1000000 rows");
}

BOOST_AUTO_TEST_CASE(a_writing_that_is_stopped_leaves_nothing) {
  const scratch_folder at;
  const random_source drawn(6, dtype::f32, at.path());
  deepspeed_write_options o;
  o.progress = [](uint64_t done, uint64_t total) { return done < total / 2; };
  check_failed(write_universal_folder(drawn.source, at / "new/made", o), error_kind::stopped, "stopped");
  BOOST_TEST(files_in(at / "new") == 0U);
}

BOOST_AUTO_TEST_SUITE_END()
