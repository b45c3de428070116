// Tests which tokens of a GGUF file become the begin and the end of texts in config.json.
#include "formats/gguf/model.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

namespace troupe::formats::tests {
BOOST_AUTO_TEST_SUITE(model)

namespace {

constexpr int32_t normal = 1, control = 3, unused = 5;

/// Returns the end of texts in config.json for a file whose tokens have the kinds and whose end is token 2.
nlohmann::json end_of(const std::vector<int32_t>& kinds, bool says_whether_texts_begin) {
  const gguf_model m{.architecture = "llama",
                     .blocks = 1,
                     .width = 32,
                     .inner = 64,
                     .heads = 4,
                     .kv_heads = 4,
                     .head_width = 8,
                     .positions = 64,
                     .vocabulary = 3,
                     .norm_epsilon = 1e-5,
                     .rope_theta = 10000};
  auto metadata = metadata_of(m);
  metadata.set("tokenizer.ggml.token_type", gguf_value::of(std::span<const int32_t>(kinds)));
  metadata.set("tokenizer.ggml.eos_token_id", gguf_value::of(uint32_t{2}));
  if (says_whether_texts_begin) metadata.set("tokenizer.ggml.add_bos_token", gguf_value::of(false));
  return nlohmann::json::parse(hugging_face_keys(m, metadata)).at("eos_token_id");
}

}  // namespace

BOOST_AUTO_TEST_CASE(an_end_of_texts_is_a_marked_token_or_a_normal_one_of_a_file_that_marks_none) {
  BOOST_TEST(end_of({normal, normal, control}, true) == 2);
  BOOST_TEST(end_of({normal, normal, normal}, false) == 2);
  BOOST_TEST(end_of({normal, normal, normal}, true).is_null());
  BOOST_TEST(end_of({normal, control, normal}, false).is_null());
  BOOST_TEST(end_of({normal, normal, unused}, false).is_null());
}

BOOST_AUTO_TEST_SUITE_END()
}  // namespace troupe::formats::tests
