// Tests that every format in the list is recognised and opened by its own entry, and which format is chosen if a path
// matches several.
#include "checkpoint/convert/formats.hpp"

#include <map>
#include <set>

#include "checkpoint/convert/folder_contents.hpp"
#include "checkpoint/convert/open_source.hpp"
#include "formats/safetensors/weights_folder.hpp"
#include "tests/checkpoint/native_samples.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(formats)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::storage;
using namespace troupe::tests;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures";

/// Checks that a path is recognised as the format `wanted`, which is compared by its name in messages.
void check_format(const fs::path& path, const source_format& wanted) {
  BOOST_TEST_CONTEXT(path.string()) {
    const auto got = check_ok(recognise(path));
    BOOST_TEST((*got)->described == wanted.described);
  }
}

}  // namespace

BOOST_AUTO_TEST_CASE(every_format_of_the_list_is_recognised_and_opened) {
  const scratch_folder at;
  check_ok(save_sample(real_files(), at / "troupe", 4, sample_tensors(1), 2));
  const std::vector<owned_tensor> weights{{"l.weight", core::dtype::f32, {4, 2}}};
  check_ok(write_weights_folder(at / "weights", all_to_write(weights), 1000));
  const std::map<const source_format*, fs::path> samples{
      {&troupe_format, at / "troupe"},
      {&universal_format, fixtures / "deepspeed/universal_stage2"},
      {&distributed_format, fixtures / "distributed/gpt2_fsdp"},
      {&deepspeed_format, fixtures / "deepspeed_gpt2/stage2_fp32"},
      {&hugging_face_format, at / "weights"},
      {&torch_format, fixtures / "torch_contents/tutorial.pt"},
      {&gguf_format, fixtures / "gguf/types.gguf"},
  };
  for (const auto* format : all_formats) {
    const auto sample = samples.find(format);
    BOOST_REQUIRE_MESSAGE(sample != samples.end(), "no sample of " << format->described);
    check_format(sample->second, *format);
    check_ok(open_source(sample->second));
  }
}

BOOST_AUTO_TEST_CASE(every_format_has_texts_of_its_own) {
  std::set<std::string_view> seen;
  for (const auto* format : all_formats) {
    BOOST_TEST(!format->described.empty());
    for (const auto text : {format->described, format->lacks, format->file_kind})
      BOOST_TEST((text.empty() || seen.insert(text).second), text);
  }
}

BOOST_AUTO_TEST_CASE(a_folder_that_is_like_several_formats_is_of_the_first_that_is_certain) {
  const scratch_folder at;
  at.write("any/model.safetensors.index.fp16.json", "{}");
  check_format(at / "any", hugging_face_format);
  // An index with any name counts only if no certain mark of a format is found.
  at.write("any/pytorch_model.bin.index.json", "{}");
  check_format(at / "any", torch_format);
  at.write("any/model.safetensors", "");
  check_format(at / "any", hugging_face_format);
  at.write("any/mp_rank_00_model_states.pt", "");
  check_format(at / "any", deepspeed_format);
  at.write("any/.metadata", "");
  check_format(at / "any", distributed_format);
  at.write("any/zero/w/fp32.pt", "");
  check_format(at / "any", universal_format);
  at.write("any/manifest.json", "");
  check_format(at / "any", troupe_format);
}

BOOST_AUTO_TEST_CASE(a_file_is_recognised_by_its_first_bytes_and_an_index_by_its_first_shard) {
  const scratch_folder at;
  // A GGUF file of 123 tensors is ambiguous: its ninth byte, the number of tensors, is '{', with which a safetensors
  // header begins.
  check_format(at.write("a", std::string("GGUF\3\0\0\0{\0", 10)), gguf_format);
  check_format(at.write("b", as_file("{}")), hugging_face_format);
  // Read as safetensors, the file states a header of 19280 bytes.
  check_format(at.write("c", std::string("PK\0\0\0\0\0\0{}", 10)), hugging_face_format);
  check_format(at.write("d", "PK\3\4"), torch_format);
  check_format(at.write("e", "\x80\2"), torch_format);
  const auto index = [](const std::string& shard) { return R"({"weight_map": {"w": ")" + shard + R"("}})"; };
  check_format(at.write("model.safetensors.index.json", index("w.safetensors")), hugging_face_format);
  check_format(at.write("model.bin.index.json", index("w.safetensors")), hugging_face_format);
  check_format(at.write("model.safetensors.index.2.json", index("w.pth")), torch_format);
  for (const auto& text : {std::string(), std::string("a text"), std::string("P"), std::string("GGU")}) {
    const auto file = at.write("f", text);
    check_failed(recognise(file), core::error_kind::bad_input,
                 "'" + file.string() + "' is not a safetensors file, a torch.save file or a GGUF file");
  }
}

BOOST_AUTO_TEST_CASE(a_folder_of_no_format_is_refused_with_the_signs_of_all) {
  const scratch_folder at;
  const auto got = recognise(at.path());
  BOOST_REQUIRE(!got);
  BOOST_TEST(got.error().text ==
             "'" + at.path().string() +
                 "' is not a checkpoint: it holds neither manifest.json nor latest (Troupe), no *_model_states.pt or "
                 "folder zero (DeepSpeed), no .metadata (torch.distributed.checkpoint) and no model.safetensors or "
                 "pytorch_model.bin (Hugging Face); it is empty");
}

BOOST_AUTO_TEST_SUITE_END()
