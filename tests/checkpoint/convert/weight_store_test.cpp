// Tests compressed weights that a killed process has stored, and with which the next process continues.
#include "checkpoint/convert/weight_store.hpp"

#include <boost/test/unit_test.hpp>
#include <nlohmann/json.hpp>

#include "formats/source/source_reader.hpp"
#include "storage/files/digest.hpp"
#include "tests/formats/random_source.hpp"
#include "tests/formats/tensors.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(weight_store)

using namespace troupe;
using namespace troupe::checkpoint;
using namespace troupe::formats;
using namespace troupe::tests;

namespace {

std::vector<stored_bytes> codes(uint8_t of) {
  std::vector<stored_bytes> out;
  out.push_back({weight_part::codes, std::vector<std::byte>(5, std::byte{of})});
  out.push_back({weight_part::scales, std::vector<std::byte>(3, std::byte{9})});
  return out;
}

std::string replaced_once(std::string text, const std::string& piece, const std::string& instead) {
  return text.replace(text.find(piece), piece.size(), instead);
}

}  // namespace

BOOST_AUTO_TEST_CASE(what_was_committed_is_there_again_and_what_was_not_is_gone) {
  const scratch_folder f;
  {
    auto s = check_ok(checkpoint::weight_store::open(f / "work", "a purpose"));
    BOOST_TEST(s->steps() == 0U);
    check_ok(s->put("a", codes(1), {1, 4}));
    s->put_importance("a", {1, 2.5F});
    check_ok(s->commit(3));
    check_ok(s->put("b", codes(2), {}));
  }
  auto s = check_ok(checkpoint::weight_store::open(f / "work", "a purpose"));
  BOOST_TEST(s->steps() == 3U);
  check_ok(s->put("c", codes(7), {}));
  check_ok(s->commit(4));
  const auto made = check_ok(s->prepared());
  BOOST_TEST(made->find("b") == nullptr);
  BOOST_TEST_REQUIRE(made->find("a") != nullptr);
  BOOST_TEST(made->find("a")->lost.relative() == 0.5);
  BOOST_TEST((made->importance_of("a").size() == 2 && made->importance_of("a")[1] == 2.5F));
  std::vector<std::byte> two(2);
  check_ok(made->read(*made->find("c"), weight_part::codes, 3, two));
  BOOST_TEST((two[1] == std::byte{7}));
  check_ok(made->read(*made->find("a"), weight_part::scales, 0, two));
  BOOST_TEST((two[0] == std::byte{9}));
  BOOST_TEST(!made->read(*made->find("a"), weight_part::codes, 4, two).has_value());
}

BOOST_AUTO_TEST_CASE(another_purpose_or_version_begins_anew) {
  const scratch_folder f;
  for (const std::string other : {"purpose", "version"}) {
    {
      auto s = checkpoint::weight_store::open(f / "work", "one");
      check_ok(s->put("a", codes(1), {}));
      check_ok(s->commit(2));
    }
    if (other == "version") f.write("work/journal.json", R"({"version": 2, "purpose": "one", "steps": 2, "bytes": 8})");
    auto s = checkpoint::weight_store::open(f / "work", other == "purpose" ? "other" : "one");
    BOOST_TEST_REQUIRE(s.has_value(), other);
    BOOST_TEST(s->steps() == 0U, other);
    BOOST_TEST(s->prepared()->find("a") == nullptr, other);
    std::filesystem::remove_all(f / "work");
  }
}

BOOST_AUTO_TEST_CASE(a_journal_of_this_version_that_makes_no_sense_is_refused) {
  const scratch_folder f;
  {
    auto s = checkpoint::weight_store::open(f / "work", "one");
    check_ok(s->put("a", codes(1), {}));
    check_ok(s->put_values("b", std::vector<float>{1, 2}));
    check_ok(s->commit(2));
  }
  const auto good = nlohmann::json::parse(scratch_folder::read(f / "work/journal.json"));
  // Writes the journal with another value at `place` and a valid digest, and opens the store.
  const auto opened_with = [&](const std::string& place, const nlohmann::json& value) {
    auto all = good;
    all.erase("digest");
    all[nlohmann::json::json_pointer(place)] = value;
    all["digest"] = storage::to_hex(storage::digest_of(all.dump()));
    f.write("work/journal.json", all.dump());
    return checkpoint::weight_store::open(f / "work", "one");
  };
  BOOST_TEST(opened_with("/steps", 2).has_value());
  const std::vector<std::pair<std::string, nlohmann::json>> broken = {{"/steps", -1},
                                                                      {"/bytes", 99999},
                                                                      {"/weights/a/parts/0/0", 9},
                                                                      {"/weights/a/parts/0/0", -1},
                                                                      {"/weights/a/parts/0/1", 4000},
                                                                      {"/weights/a/parts/0/2", 5000},
                                                                      {"/weights/a/largest", "much"},
                                                                      {"/values/b/1", 7},
                                                                      {"/values/b/0", 18446744073709551608U}};
  for (const auto& [place, value] : broken) {
    BOOST_TEST_INFO_SCOPE(place << ": " << value);
    check_failed(opened_with(place, value), core::error_kind::bad_input);
  }
}

BOOST_AUTO_TEST_CASE(rounding_errors_are_those_of_the_process_that_was_killed) {
  const scratch_folder f;
  {
    auto s = checkpoint::weight_store::open(f / "work", "one");
    check_ok(s->put("a", codes(1), {1, 4, 0.75}));
    check_ok(s->commit(1));
  }
  const auto s = check_ok(checkpoint::weight_store::open(f / "work", "one"));
  const auto made = check_ok(s->prepared());
  const auto* const a = made->find("a");
  BOOST_REQUIRE(a != nullptr);
  BOOST_TEST(a->lost.error_squares == 1);
  BOOST_TEST(a->lost.squares == 4);
  BOOST_TEST(a->lost.largest == 0.75);
}

BOOST_AUTO_TEST_CASE(changed_bytes_are_refused_before_anything_is_made_of_them) {
  const scratch_folder f;
  {
    auto s = checkpoint::weight_store::open(f / "work", "a purpose");
    check_ok(s->put("a", codes(1), {1, 4}));
    check_ok(s->put_values("b", std::vector<float>{1, 2, 3}));
    s->put_importance("a", {1, 2.5F});
    s->set_inputs_digest("of what is beside");
    check_ok(s->commit(3));
  }
  const auto weights = scratch_folder::read(f / "work/weights.bin");
  const auto journal = scratch_folder::read(f / "work/journal.json");
  const auto refused = [&](const std::string& words) {
    check_failed(checkpoint::weight_store::open(f / "work", "a purpose"), core::error_kind::bad_input, words);
  };
  for (size_t at = 0; at < weights.size(); ++at) {
    auto changed = weights;
    changed[at] = static_cast<char>(changed[at] ^ 1);
    f.write("work/weights.bin", changed);
    refused("do not match their digest: it was changed after it was written");
  }
  f.write("work/weights.bin", weights.substr(0, weights.size() - 1));
  refused("weights.bin is shorter than the journal states");
  f.write("work/weights.bin", weights);
  f.write("work/journal.json", replaced_once(journal, "2.5", "3.5"));
  refused("the journal does not match its digest");
  f.write("work/journal.json", journal);
  auto s = check_ok(checkpoint::weight_store::open(f / "work", "a purpose"));
  BOOST_TEST(s->inputs_digest() == "of what is beside");
  check_ok(s->prepared());
  // If a file changes while the store is open, the next attempt to open the store is refused.
  auto changed = weights;
  changed[0] = static_cast<char>(changed[0] ^ 1);
  f.write("work/weights.bin", changed);
  BOOST_TEST(!checkpoint::weight_store::open(f / "work", "a purpose").has_value());
}

BOOST_AUTO_TEST_SUITE_END()
