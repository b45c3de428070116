// Tests the meaning of tensor names and keys in folders of torch.distributed.checkpoint, and which tensors are left
// out.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <boost/test/unit_test.hpp>

#include "formats/distributed/source.hpp"
#include "formats/report/inspect.hpp"
#include "formats/torch/archive_writer.hpp"
#include "formats/torch/distributed_metadata.hpp"
#include "formats/torch/pickle_writer.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(distributed_names)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;

namespace {

/// A folder of tensors of two numbers, each in a file of its own, with the keys under which a state dict contains them.
struct keyed_folder {
  struct entry {
    std::vector<std::string> keys;
    core::dtype type = core::dtype::f32;
    std::vector<std::byte> bytes = noise(8, 1);
    std::string torch_type = {};  ///< type stated in .metadata; empty: the value of `type`
    std::vector<int64_t> shape = {2};
  };
  std::vector<entry> entries;
  bool says_keys = true;
  size_t strange_attributes = 0;  ///< number of additional attributes of each tensor

  static std::string name_of(const std::vector<std::string>& keys) { return fmt::format("{}", fmt::join(keys, ".")); }

  core::result<tensor_source> read(const scratch_folder& at) const {
    const auto of = [](const char* name) { return torch_value::object("torch.distributed.checkpoint.metadata", name); };
    auto tensors = torch_value::dict(), places = torch_value::dict(), paths = torch_value::dict();
    for (size_t i = 0; i < entries.size(); ++i) {
      const auto& e = entries[i];
      const std::vector<int64_t> first(e.shape.size());
      const auto path = fmt::format("__{}_0.distcp", i), name = name_of(e.keys);
      auto file = check_ok(streamed_file::create(at / path));
      const std::vector<torch_storage> storages{{e.type, core::numel_of(e.shape), e.bytes, {}}};
      const auto length = check_ok(append_torch_archive(*file, torch_view{0, 0, e.shape}, storages));
      check_ok(file->commit());
      auto boxes = torch_value::list(), path_of = torch_value::list();
      boxes.push(
          of("ChunkStorageMetadata").set("offsets", torch_value::size(first)).set("sizes", torch_value::size(e.shape)));
      auto info = torch_value::object("torch.distributed.checkpoint.filesystem", "_StorageInfo");
      info.set("relative_path", path).set("offset", int64_t{0}).set("length", static_cast<int64_t>(*length));
      places.set(of("MetadataIndex").set("fqn", name).set("offset", torch_value::size(first)), std::move(info));
      const auto type = torch_value::global(
          "torch", e.torch_type.empty() ? e.type == core::dtype::bf16 ? "bfloat16" : "float32" : e.torch_type);
      auto tensor = of("TensorStorageMetadata");
      tensor.set("properties", of("TensorProperties").set_state(torch_value::tuple({type})))
          .set("size", torch_value::size(e.shape))
          .set("chunks", std::move(boxes));
      for (size_t k = 0; k < strange_attributes; ++k) tensor.set(fmt::format("strange{}", k), torch_value());
      tensors.set(name, std::move(tensor));
      std::vector<torch_value> keys(e.keys.begin(), e.keys.end());
      paths.set(name, torch_value::tuple(std::move(keys)));
    }
    auto root = of("Metadata").set("state_dict_metadata", std::move(tensors)).set("storage_data", std::move(places));
    if (says_keys) root.set("planner_data", std::move(paths));
    pickle_writer out;
    root.write(out, [](pickle_writer&, const torch_view&) {});
    at.write(".metadata", out.finish());
    return read_distributed_source(at.path());
  }

  /// Returns the names and kinds of all tensors.
  std::string listed() const {
    const scratch_folder at;
    const auto got = check_ok(read(at));
    std::string out;
    for (const auto& t : got->tensors)
      out += (out.empty() ? "" : ", ") + t.name + (t.kind == tensor_kind::moment ? "/" + t.moment : "");
    return out;
  }
};

std::vector<std::byte> bytes_of(const std::vector<float>& numbers) {
  const auto all = std::as_bytes(std::span(numbers));
  return {all.begin(), all.end()};
}

}  // namespace

BOOST_AUTO_TEST_CASE(no_weight_is_an_optimizers_for_its_own_name) {
  const keyed_folder nested{{{{"model", "state.weight"}}, {{"model", "lin.weight"}}, {{"model", "param_groups.w"}}}};
  BOOST_TEST(nested.listed() == "lin.weight, param_groups.w, state.weight");
  for (const bool says_keys : {true, false}) {
    BOOST_TEST_INFO_SCOPE("says keys " << says_keys);
    const keyed_folder flat{{{{"optim.weight"}}, {{"optimizer.bias"}}, {{"optim.state.weight"}}}, says_keys};
    BOOST_TEST(flat.listed() == "optim.state.weight, optim.weight, optimizer.bias");
  }
  const keyed_folder of_states{{{{"state", "lin.weight"}}, {{"net", "state", "weight"}}}};
  BOOST_TEST(of_states.listed() == "lin.weight, state.weight");
}

BOOST_AUTO_TEST_CASE(an_optimizers_states_are_known_by_the_keys_around_them) {
  const std::string listed = keyed_folder{{{{"model", "w"}}, {{"optim", "state", "w", "exp_avg"}}}}.listed();
  BOOST_TEST(listed == "w, w/exp_avg");
  for (const std::vector<std::vector<std::string>>& all :
       {std::vector<std::vector<std::string>>{{"model", "w"}, {"optimizer", "state.w.exp_avg"}},
        {{"model", "w"}, {"other", "state", "w", "exp_avg"}},
        {{"w"}, {"optimizer.state.exp_avg.w"}},
        {{"app", "model", "w"}, {"app", "optim", "state", "w", "exp_avg"}}}) {
    keyed_folder folder;
    for (const auto& keys : all) folder.entries.push_back({keys});
    BOOST_TEST(folder.listed() == listed);
  }
  const keyed_folder numbered{
      {{{"model", "w"}}, {{"other", "state", "0", "exp_avg"}}, {{"other", "param_groups", "0", "lr"}}}};
  const scratch_folder at;
  const auto got = check_ok(numbered.read(at));
  BOOST_TEST(got->tensors.size() == 1U);
  BOOST_REQUIRE(got->remarks.size() == 1U);
  BOOST_TEST(got->remarks[0] ==
             "left out: 1 states of an optimizer, such as 'other.state.0.exp_avg', which do not name a parameter");
}

BOOST_AUTO_TEST_CASE(a_state_of_another_shape_than_its_parameter_is_left_out_with_both_shapes) {
  using entry = keyed_folder::entry;
  const entry misfit{{"optim", "state", "w", "exp_avg"}, core::dtype::f32, noise(12, 1), "", {3}};
  const keyed_folder folder{{{{"model", "w"}}, misfit, {{"optim", "state", "w", "exp_avg_sq"}}}};
  BOOST_TEST(folder.listed() == "w, w/exp_avg_sq");
  const scratch_folder at;
  const auto got = check_ok(folder.read(at));
  BOOST_REQUIRE(got->remarks.size() == 1U);
  BOOST_TEST(got->remarks[0] ==
             "left out: 1 states of an optimizer, such as 'optim.state.w.exp_avg' with the shape [3], wanted [2], the "
             "shape of its parameter");
}

BOOST_AUTO_TEST_CASE(dictionaries_in_a_model_stay_in_its_names) {
  const keyed_folder nested{{{{"net", "enc", "weight"}}, {{"net", "enc", "bias"}}, {{"net", "dec", "out", "weight"}}}};
  BOOST_TEST(nested.listed() == "dec.out.weight, enc.bias, enc.weight");
  BOOST_TEST((keyed_folder{{{{"app", "model", "enc", "weight"}}}}.listed()) == "enc.weight");
}

BOOST_AUTO_TEST_CASE(tensors_of_types_that_are_not_read_are_left_out_by_name_and_type) {
  const keyed_folder folder{{{{"model", "v"}},
                             {{"model", "w"}, core::dtype::f32, noise(8, 1), "float8_e4m3fn"},
                             {{"model", "c"}, core::dtype::f32, noise(8, 1), "complex64"}}};
  const scratch_folder at;
  const auto got = check_ok(folder.read(at));
  BOOST_TEST(got->tensors.size() == 1U);
  BOOST_REQUIRE(got->remarks.size() == 1U);
  BOOST_TEST(got->remarks[0] ==
             "left out: 'model.c' of torch.complex64, 'model.w' of torch.float8_e4m3fn: only tensors of float64, "
             "float32, float16, bfloat16, int64, int32, int16, int8, uint8 and bool are read");
  BOOST_TEST(inspect_text(*got).find(got->remarks[0]) != std::string::npos);
}

BOOST_AUTO_TEST_CASE(an_odd_step_leaves_the_optimizers_states_out_and_keeps_the_weights) {
  using entry = keyed_folder::entry;
  const entry half{{"optim", "state", "w", "step"}, core::dtype::f32, bytes_of({1.5F}), "", {}};
  const entry bf16{{"optim", "state", "w", "step"}, core::dtype::bf16, noise(2, 1), "", {}};
  const entry eight{{"optim", "state", "w", "step"}, core::dtype::f32, noise(4, 1), "float8_e5m2", {}};
  for (const auto& [step, words] :
       {std::pair(half, "a number of steps was wanted as 'optim.state.w.step', got 1.5"),
        std::pair(bf16, "got one of bf16"), std::pair(eight, "'optim.state.w.step' has the type torch.float8_e5m2")}) {
    const keyed_folder folder{{{{"model", "w"}}, {{"optim", "state", "w", "exp_avg"}}, step}};
    const scratch_folder at;
    const auto got = check_ok(folder.read(at));
    BOOST_REQUIRE(got->tensors.size() == 1U);
    BOOST_TEST((got->tensors[0].kind == tensor_kind::weight && bytes_in(*got, got->tensors[0]) == noise(8, 1)));
    BOOST_TEST(!got->run.steps.has_value());
    BOOST_REQUIRE(!got->remarks.empty());
    BOOST_TEST(got->remarks[0].starts_with("left out: the states of the optimizer: "), got->remarks[0]);
    BOOST_TEST(got->remarks[0].find(words) != std::string::npos, got->remarks[0]);
  }
}

BOOST_AUTO_TEST_CASE(attributes_that_no_class_has_so_many_of_are_refused) {
  for (const size_t over : {0, 1}) {
    const keyed_folder folder{{{{"model", "w"}}}, true, max_metadata_attributes - 3 + over};
    const scratch_folder at;
    if (over == 0)
      check_ok(folder.read(at));
    else
      check_failed(folder.read(at), error_kind::limit,
                   "TensorStorageMetadata: at most 64 attributes were wanted, got 65");
  }
}

BOOST_AUTO_TEST_SUITE_END()
