// Tests which name of a tensor is kept if a checkpoint stores the parameter under several names.
#include "formats/names/tied_names.hpp"

#include "formats/compressed/source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(further_names)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

const std::string embedding = "model.embed_tokens.weight", norm = "model.norm.weight", head = "lm_head.weight";
using names = std::vector<std::string>;

/// Returns the result for a source with these tensors and these tied names, for a model of an embedding and a norm.
without_further left_of(const scratch_folder& f, const names& tensors, std::vector<tied_name> tied) {
  std::vector<owned_tensor> all;
  for (const auto& name : tensors) all.emplace_back(name, core::dtype::f32, std::vector<int64_t>{4, 2});
  check_ok(write_weights_folder(f / "hf", all_to_write(all), uint64_t{1} << 30U));
  auto source = check_ok(hugging_face_format.open(f / "hf", {}));
  source->tied = std::move(tied);
  source->parameter_order = tensors;
  for (const auto& t : source->tied) source->parameter_order.push_back(t.name);
  const std::vector<wanted_tensor> wanted{{embedding, {4, 2}}, {norm, {4, 2}}};
  auto out = check_ok(without_further_names(std::move(*source), wanted));
  return std::move(*out);
}

names tensors_of(const tensor_source& s) {
  names out;
  for (const auto& t : s.tensors) out.push_back(t.name);
  return out;
}

}  // namespace

BOOST_AUTO_TEST_CASE(further_names_of_a_parameter_are_removed_and_listed) {
  const scratch_folder f;
  const auto s = left_of(f, {embedding, norm}, {{"ema.norm.weight", norm}, {"other.weight", norm}});
  BOOST_TEST((s.left_out == names{"ema.norm.weight", "other.weight"}));
  BOOST_TEST((tensors_of(s.source) == names{embedding, norm}));
  BOOST_TEST(s.source.tied.empty());
  BOOST_TEST((s.source.parameter_order == names{embedding, norm}));
}

BOOST_AUTO_TEST_CASE(a_tensor_that_is_stored_under_another_name_gets_the_parameters) {
  const scratch_folder f;
  const auto s = left_of(f, {"backbone.norm.weight", embedding},
                         {{norm, "backbone.norm.weight"}, {"other.weight", "backbone.norm.weight"}});
  BOOST_TEST((s.left_out == names{"backbone.norm.weight", "other.weight"}));
  BOOST_TEST((tensors_of(s.source) == names{embedding, norm}));
  BOOST_TEST(s.source.tied.empty());
  BOOST_TEST((s.source.parameter_order == names{embedding, norm}));
  BOOST_TEST(s.source.names_in_files.at(norm) == "backbone.norm.weight");
}

BOOST_AUTO_TEST_CASE(a_head_and_names_of_tensors_that_no_parameter_has_stay) {
  const scratch_folder f;
  const auto tied = left_of(f, {embedding, norm}, {{head, embedding}});
  BOOST_TEST(tied.left_out.empty());
  BOOST_TEST((tied.source.tied == std::vector<tied_name>{{head, embedding}}));
  const auto turned = left_of(f, {head, norm}, {{embedding, head}});
  BOOST_TEST(turned.left_out.empty());
  BOOST_TEST((tensors_of(turned.source) == names{head, norm}));
  const auto unknown = left_of(f, {embedding, norm, "value.weight"}, {{"second.weight", "value.weight"}});
  BOOST_TEST(unknown.left_out.empty());
  BOOST_TEST((unknown.source.tied == std::vector<tied_name>{{"second.weight", "value.weight"}}));
}

BOOST_AUTO_TEST_SUITE_END()
