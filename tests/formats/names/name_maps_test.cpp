// Tests the mapping between names in checkpoints and names in models, in both directions.
#include "formats/names/name_map.hpp"

#include <boost/test/unit_test.hpp>

BOOST_AUTO_TEST_SUITE(name_maps)

using namespace troupe::formats;
using names = std::vector<std::string>;

namespace {

tensor_list list_of(const names& all, tensor_kind kind = tensor_kind::weight) {
  tensor_list out;
  for (const auto& name : all) out.tensors.push_back({name, kind, {}, {}, {}, {}});
  put_in_order(out);
  return out;
}

const names gpt2{"transformer.wte.weight", "transformer.wpe.weight", "transformer.h.0.attn.c_attn.weight",
                 "transformer.ln_f.weight"};
const names llama{"model.embed_tokens.weight", "model.layers.0.self_attn.q_proj.weight", "model.norm.weight",
                  "lm_head.weight"};

}  // namespace

BOOST_AUTO_TEST_CASE(prefixes_of_wrappers_and_of_hugging_face_do_not_matter) {
  for (const std::string prefix :
       {"", "transformer.", "module.transformer.", "module.", "_orig_mod.module.transformer."}) {
    BOOST_TEST_INFO_SCOPE(prefix);
    names there;
    for (const auto& name : gpt2) there.push_back(prefix + name.substr(std::string("transformer.").size()));
    const name_map map(list_of(there));
    for (size_t i = 0; i < gpt2.size(); ++i) BOOST_TEST(map.find(gpt2[i]).value_or("none") == there[i]);
    BOOST_TEST(map.unexpected(gpt2).empty());
  }
  names there;
  for (const auto& name : llama) there.push_back("module." + name);
  const name_map map(list_of(there));
  for (size_t i = 0; i < llama.size(); ++i) BOOST_TEST(map.find(llama[i]).value_or("none") == there[i]);
  BOOST_TEST(!map.find("model.layers.1.self_attn.q_proj.weight").has_value());
}

BOOST_AUTO_TEST_CASE(tied_heads_and_buffers_are_expected_and_unknown_tensors_are_not) {
  auto source = list_of(gpt2);
  source.tied = {{"lm_head.weight", "transformer.wte.weight"}};
  BOOST_TEST(name_map(source).unexpected(gpt2).empty());
  // In the reversed tie, the checkpoint stores the tensor under the head's name.
  source = list_of(
      {"lm_head.weight", "transformer.wpe.weight", "transformer.h.0.attn.c_attn.weight", "transformer.ln_f.weight"});
  source.tied = {{"transformer.wte.weight", "lm_head.weight"}};
  const name_map turned(source);
  BOOST_TEST(turned.find("transformer.wte.weight").value_or("none") == "transformer.wte.weight");
  BOOST_TEST(turned.unexpected(gpt2).empty());
  // The model's tensors include a copy of the embedding, attention masks, and a tensor that the model does not define.
  auto more = gpt2;
  for (const char* name : {"lm_head.weight", "transformer.h.0.attn.bias", "transformer.h.9.mlp.c_fc.weight"})
    more.push_back(name);
  BOOST_TEST(name_map(list_of(more)).unexpected(gpt2) == names{"transformer.h.9.mlp.c_fc.weight"});
  // A head in the list of the model's parameters is an ordinary parameter.
  BOOST_TEST(name_map(list_of(llama)).unexpected(names(llama.begin(), llama.end() - 1)).empty());
  BOOST_TEST(name_map(list_of(llama)).find("lm_head.weight").value_or("none") == "lm_head.weight");
}

BOOST_AUTO_TEST_CASE(two_tensors_of_one_bare_name_are_distinguished_or_not_taken) {
  const name_map map(list_of({"model.a.weight", "a.weight", "module.b.weight", "model.b.weight"}));
  BOOST_TEST(map.find("a.weight").value_or("none") == "a.weight");
  BOOST_TEST(map.find("model.a.weight").value_or("none") == "model.a.weight");
  BOOST_TEST(!map.find("b.weight").has_value());
  // A name that has only moments or buffers is not a parameter.
  BOOST_TEST(!name_map(list_of({"x"}, tensor_kind::buffer)).find("x").has_value());
}

BOOST_AUTO_TEST_CASE(exported_names_are_hugging_faces) {
  BOOST_TEST(hugging_face_name("gpt2", "wte.weight") == "transformer.wte.weight");
  BOOST_TEST(hugging_face_name("gpt2", "module.transformer.wte.weight") == "transformer.wte.weight");
  BOOST_TEST(hugging_face_name("gpt2", "lm_head.weight") == "lm_head.weight");
  BOOST_TEST(hugging_face_name("llama", "layers.0.mlp.up_proj.weight") == "model.layers.0.mlp.up_proj.weight");
  BOOST_TEST(hugging_face_name("own", "model.x") == "model.x");
  // GPT-NeoX's files call the head otherwise.
  BOOST_TEST(bare_name("embed_out.weight") == head_name);
  BOOST_TEST(hugging_face_name("gpt_neox", "lm_head.weight") == "embed_out.weight");
  BOOST_TEST(hugging_face_name("gpt_neox", "embed_out.weight") == "embed_out.weight");
  const auto tied = hugging_face_tied("gpt2", gpt2);
  BOOST_TEST_REQUIRE(tied.size() == 1U);
  BOOST_TEST(tied[0].name == "lm_head.weight");
  BOOST_TEST(tied[0].of == "transformer.wte.weight");
  BOOST_TEST(hugging_face_tied("llama", llama).empty());
  BOOST_TEST(hugging_face_tied("own", gpt2).empty());
}

BOOST_AUTO_TEST_SUITE_END()
