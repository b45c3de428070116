// Tests a head that the model ties to the embedding: with equal values, with other values, without an embedding, and
// with states of its own.
#include "formats/names/tied_names.hpp"

#include "formats/compressed/source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(tied_head)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

const std::string embedding = "model.embed_tokens.weight", head = "lm_head.weight";

owned_tensor matrix(const std::string& name, core::dtype type, float first) {
  owned_tensor t(name, core::dtype::f32, {4, 2});
  for (size_t i = 0; i < 8; ++i) {
    const float x = first + static_cast<float>(i);
    std::memcpy(&t.data[i * sizeof x], &x, sizeof x);
  }
  if (type == core::dtype::f32) return t;
  owned_tensor narrow(name, type, {4, 2});
  // Copies the upper halves, which represent these values in bf16 exactly.
  for (size_t i = 0; i < 8; ++i) std::memcpy(&narrow.data[i * 2], &t.data[i * 4 + 2], 2);
  return narrow;
}

settled_head settled(const scratch_folder& f, const std::vector<owned_tensor>& tensors) {
  check_ok(write_weights_folder(f / "hf", all_to_write(tensors), uint64_t{1} << 30U));
  auto source = check_ok(hugging_face_format.open(f / "hf", {}));
  auto out = check_ok(settle_tied_head(std::move(*source), "llama"));
  return std::move(*out);
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_head_of_the_same_values_becomes_another_name_of_the_embedding_whatever_its_type) {
  const scratch_folder f;
  for (const auto type : {core::dtype::f32, core::dtype::bf16}) {
    BOOST_TEST_INFO_SCOPE(core::name_of(type));
    const auto s = settled(f, {matrix(embedding, core::dtype::f32, 1), matrix(head, type, 1)});
    BOOST_TEST(s.own_values == "");
    BOOST_TEST(s.source.tensors.size() == 1U);
    BOOST_TEST((s.source.tied == std::vector<tied_name>{{head, embedding}}));
  }
}

BOOST_AUTO_TEST_CASE(a_head_of_other_values_stays_and_is_told) {
  const scratch_folder f;
  const auto s = settled(f, {matrix(embedding, core::dtype::f32, 1), matrix(head, core::dtype::f32, 2)});
  BOOST_TEST(s.source.tensors.size() == 2U);
  BOOST_TEST(s.source.tied.empty());
  BOOST_TEST(s.own_values.find("config.json ties the head to the embedding, but 'lm_head.weight' and "
                               "'model.embed_tokens.weight' have different values: the head keeps its own") !=
             std::string::npos);
}

BOOST_AUTO_TEST_CASE(a_head_alone_is_the_embedding) {
  const scratch_folder f;
  const auto s = settled(f, {matrix(head, core::dtype::f32, 2)});
  BOOST_TEST(s.own_values == "");
  BOOST_TEST_REQUIRE(s.source.tensors.size() == 1U);
  BOOST_TEST(s.source.tensors[0].name == embedding);
  BOOST_TEST((s.source.tied == std::vector<tied_name>{{head, embedding}}));
}

BOOST_AUTO_TEST_SUITE_END()
