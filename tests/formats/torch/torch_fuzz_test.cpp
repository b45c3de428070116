// Tests damaged and hostile files of torch.save: each is refused, or opens and can be read to its last value; none
// allocates more than the stated multiple of its pickle's size, and nothing is executed.
#include <array>
#include <boost/test/unit_test.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>

#include "checkpoint/convert/open_source.hpp"
#include "formats/deepspeed/source.hpp"
#include "formats/torch/archive.hpp"
#include "formats/torch/zip_reader.hpp"
#include "formats/torch/zip_writer.hpp"
#include "tests/counted_memory.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/formats/newest_in.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/places.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(torch_fuzz)

using namespace troupe;
using namespace troupe::formats;
using namespace troupe::tests;
using namespace std::string_literals;
namespace fs = std::filesystem;

namespace {

const fs::path fixtures = fs::path(troupe::places::source_dir) / "tests/formats/fixtures/deepspeed";
constexpr size_t constant_bytes = 256 * 1024;

/// Reads every value and both ends of every contiguous tensor, and returns the number of values.
size_t walked(const torch_archive& file) {
  size_t seen = file.unknown_globals().size();
  for (pickle_ref v = 0; v < file.tree().size(); ++v) {
    if (const auto tensor = file.tensor(v); tensor && tensor->numel > 0 && tensor->is_contiguous()) {
      std::array<std::byte, 2> ends{};
      check_ok(file.read(tensor->begin, std::span(ends).first(1)));
      check_ok(file.read(tensor->begin + tensor->numel * core::size_of(tensor->type) - 1, std::span(ends).last(1)));
      seen += std::to_integer<size_t>(ends.front()) + std::to_integer<size_t>(ends.back());
    }
    seen += file.shape(v).has_value() + file.integer(v).has_value() + file.tree().find(v, "x").has_value();
  }
  return seen;
}

void damage(const fs::path& valid, uint64_t seed) {
  const scratch_folder at;
  const std::string good = scratch_folder::read(valid);
  size_t opened = 0, seen = 0;
  for_mutations(good, seed, pickle_hints, [&](size_t i, const std::string& broken) {
    // Removes the file first, because overwriting makes some file systems wait for the disk.
    fs::remove(at / "broken.pt");
    at.write("broken.pt", broken);
    const memory_mark mark;
    {
      const auto file = torch_archive::open(at / "broken.pt");
      if (file) {
        ++opened;
        seen += walked(*file);
      }
    }
    BOOST_REQUIRE_MESSAGE(mark.taken() <= broken.size() * 4 + constant_bytes,
                          "mutation " << i << " took " << mark.taken() << " bytes for a file of " << broken.size());
  });
  BOOST_TEST(opened > 0U);
  BOOST_TEST(opened < mutations());
  BOOST_TEST(seen > 0U);
}

std::span<const std::byte> as_bytes_of(std::string_view text) { return std::as_bytes(std::span(text)); }

}  // namespace

BOOST_AUTO_TEST_CASE(damaged_zip_archives_are_read_or_refused) {
  damage(fixtures / "stage2_bf16/step2/bf16_zero_pp_rank_1_mp_rank_00_optim_states.pt", 1);
}

BOOST_AUTO_TEST_CASE(damaged_legacy_streams_are_read_or_refused) {
  damage(fixtures / "stage2_fp32_legacy/step2/mp_rank_00_model_states.pt", 2);
}

BOOST_AUTO_TEST_CASE(damaged_pickles_are_read_or_refused) {
  const auto file = scratch_folder::read(fixtures / "stage3_bf16/step2/zero_pp_rank_0_mp_rank_00_model_states.pt");
  const auto list = check_ok(read_zip(as_bytes_of(file)));
  const auto* entry = find_entry(list->entries, "zero_pp_rank_0_mp_rank_00_model_states/data.pkl");
  BOOST_REQUIRE(entry != nullptr);
  const std::string good = file.substr(entry->begin, entry->bytes);
  size_t read = 0;
  for_mutations(good, 3, pickle_hints, [&](size_t, const std::string& broken) {
    const memory_mark mark;
    read += read_pickle(as_bytes_of(broken)).has_value();
    BOOST_REQUIRE(mark.taken() <= broken.size() * max_pickle_memory_factor + constant_bytes);
  });
  BOOST_TEST(read < mutations());
}

BOOST_AUTO_TEST_CASE(damaged_archives_list_entries_inside_or_are_refused) {
  const std::string good = scratch_folder::read(fixtures / "stage2_bf16/step2/mp_rank_00_model_states.pt");
  size_t listed = 0;
  for_mutations(good, 5, {"PK\1\2\3\4\5\6\7\x08./\\\xFF"}, [&](size_t, const std::string& broken) {
    const memory_mark mark;
    const auto list = read_zip(as_bytes_of(broken));
    BOOST_REQUIRE(mark.taken() <= broken.size() + constant_bytes);
    if (!list) return;
    ++listed;
    for (const auto& e : list->entries) BOOST_REQUIRE((e.begin <= broken.size() && e.bytes <= broken.size() - e.begin));
  });
  BOOST_TEST(listed > 0U);
  BOOST_TEST(listed < mutations());
}

BOOST_AUTO_TEST_CASE(damaged_universal_folders_are_read_or_refused) {
  const scratch_folder at;
  fs::copy(fixtures / "universal_stage3", at / "u", fs::copy_options::recursive);
  std::vector<fs::path> files;
  for (const auto& entry : fs::recursive_directory_iterator(at / "u"))
    if (entry.is_regular_file()) files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  std::mt19937_64 random(6);
  size_t read = 0;
  const size_t count = mutations() / 10;  // a tenth, because each mutation reads thirty files
  for (size_t i = 0; i < count; ++i) {
    const auto& victim = files[i % files.size()];
    const std::string good = scratch_folder::read(victim);
    fs::remove(victim);
    at.write(fs::relative(victim, at / "").string(), mutated(good, random, pickle_hints));
    read += checkpoint::open_source(at / "u").has_value();
    fs::remove(victim);
    at.write(fs::relative(victim, at / "").string(), good);
  }
  BOOST_TEST(read > 0U);
  BOOST_TEST(read < count);
}

BOOST_AUTO_TEST_CASE(damaged_folders_are_indexed_or_refused) {
  const scratch_folder at;
  std::mt19937_64 random(4);
  size_t indexed = 0;
  for (const char* name : {"stage2_bf16", "stage3_fp32"}) {
    fs::copy(fixtures / name, at / name, fs::copy_options::recursive);
    std::vector<fs::path> files;
    for (const auto& entry : fs::directory_iterator(at / name / "step2")) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (size_t i = 0; i < mutations() / 2; ++i) {
      const auto& victim = files[i % files.size()];
      const std::string good = scratch_folder::read(victim);
      fs::remove(victim);
      at.write(fs::relative(victim, at / "").string(), mutated(good, random, pickle_hints));
      const auto index = read_deepspeed_source(newest_in(at / name));
      if (index && ++indexed % 8 == 0)
        for (const auto& t : index->tensors) BOOST_TEST(is_read_or_refused(*index, t));
      fs::remove(victim);
      at.write(fs::relative(victim, at / "").string(), good);
    }
  }
  BOOST_TEST(indexed > 0U);
}

BOOST_AUTO_TEST_CASE(the_memory_of_the_worst_pickle_is_as_stated) {
  const std::string worst = "\x80\x02(" + std::string(200'000, ']') + "t.";
  const memory_mark mark;
  check_ok(read_pickle(as_bytes_of(worst)));
  BOOST_TEST(mark.taken() <= worst.size() * max_pickle_memory_factor + constant_bytes);
}

BOOST_AUTO_TEST_CASE(values_recalled_for_call_after_call_are_not_copied_for_each) {
  const auto bytes_of = [](size_t n) { return std::string(reinterpret_cast<const char*>(&n), 4); };
  const auto repeated = [](size_t times, std::string_view what) {
    std::string out;
    for (size_t i = 0; i < times; ++i) out += what;
    return out;
  };
  const auto latin = [&](const std::string& text) {
    return "c_codecs\nencode\nq\1(X"s + bytes_of(text.size()) + text + "X\6\0\0\0latin1tq\2"s;
  };
  const size_t n = 20'000;
  const struct {
    const char* what;
    std::string body, why;
  } bombs[] = {
      {"sets of one list", "cbuiltins\nset\nq\1(](" + std::string(n, 'N') + "etq\2" + repeated(n, "h\1h\2R0"),
       "its sets together"},
      {"frozen sets",
       "cbuiltins\nfrozenset\nq\1(](" + std::string(n, 'N') + "etq\2" +
           repeated(n,
                    "h\1h\2\x81"
                    "0"),
       "its sets together"},
      {"calls of one tuple", "cos\nsystem\nq\1(" + std::string(n, 'N') + "tq\2" + repeated(n, "h\1h\2R0"), ""},
      {"bytes of one text", latin(std::string(n, 'x')) + repeated(n, "h\1h\2R0"), "its byte strings together"},
      {"bytes of one text that is no latin1", latin(std::string(n, 'x') + "\xE2\x82\xAC") + repeated(n, "h\1h\2R0"),
       "its byte strings together"},
      {"towers of tuples", "N" + std::string(n, '\x85'), "deeper than"},
  };
  for (const auto& bomb : bombs) {
    const std::string text = "\x80\x02(" + bomb.body + "t.";
    const memory_mark mark;
    const auto tree = read_pickle(as_bytes_of(text));
    BOOST_TEST(mark.taken() <= text.size() * max_pickle_memory_factor + constant_bytes, bomb.what);
    BOOST_TEST(mark.asked() <= 2 * text.size() * max_pickle_memory_factor + constant_bytes, bomb.what);
    BOOST_TEST(tree.has_value() == bomb.why.empty(), bomb.what);
    if (!tree) BOOST_TEST(tree.error().text.find(bomb.why) != std::string::npos, tree.error().text);
  }
}

BOOST_AUTO_TEST_CASE(a_pickle_that_would_run_a_command_opens_and_does_nothing) {
  const scratch_folder at;
  const std::string command = "touch " + (at / "pwned").string();
  const std::string pickle = std::string("\x80\x02}X\1\0\0\0wcposix\nsystem\nX", 24) +
                             static_cast<char>(command.size()) + std::string(3, '\0') + command + "\x85Rs.";
  auto zip = zip_writer::create(at / "evil.pt");
  check_ok(zip->add("archive/data.pkl", as_bytes_of(pickle)));
  check_ok(zip->commit());
  const auto file = check_ok(torch_archive::open(at / "evil.pt"));
  BOOST_TEST(file->unknown_globals() == std::vector<std::string>{"posix.system"});
  const auto value = check_ok(file->tree().find(file->root(), "w"));
  check_failed(file->tensor(*value), core::error_kind::bad_input, "posix.system");
  BOOST_TEST(!fs::exists(at / "pwned"));
}

BOOST_AUTO_TEST_SUITE_END()
