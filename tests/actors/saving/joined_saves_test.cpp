// Tests a checkpoint that several processes write: one job leads, another has joined, and the test carries their
// messages.
#include <unistd.h>

#include <boost/test/unit_test.hpp>
#include <map>
#include <string>
#include <thread>

#include "actors/saving/part_result.hpp"
#include "actors/saving/save_job.hpp"
#include "checkpoint/commit/names.hpp"
#include "checkpoint/commit/open_native.hpp"
#include "formats/report/verify.hpp"
#include "storage/files/digest.hpp"
#include "storage/files/memory_files.hpp"
#include "storage/files/working_folder.hpp"
#include "tests/actors/saving/save_rig.hpp"
#include "tests/check_ok.hpp"
#include "tests/fakes/file_system.hpp"
#include "tests/formats/mutations.hpp"
#include "tests/scratch_folder.hpp"

BOOST_AUTO_TEST_SUITE(joined_saves)

using namespace troupe;
using namespace troupe::actors;
using storage::fake_files;
using troupe::tests::check_failed;
using troupe::tests::check_ok;
namespace fs = std::filesystem;

namespace {

const ranks_here first_here{true, false, false}, others_here{false, true, true};

plan::plan_options three_ranks(uint32_t stage) { return with_staging(3, stage, 100'000); }

/// Joins the save that `leader` has begun; the invitation is encoded and decoded as between two processes.
std::shared_ptr<save_job> join(const save_rig& r, storage::file_system& files, const save_job& leader,
                               save_job::tell_part tell, const save_request& request = {},
                               const ranks_here& here = others_here) {
  const auto invitation = decode_save_invitation(encode(leader.invitation()));
  const auto asked = decode_save_request(encode(request));
  BOOST_REQUIRE(invitation.has_value());
  BOOST_REQUIRE(asked.has_value());
  return save_job::join(files, *invitation, *asked, leader.step(), r.plans, {}, here, std::move(tell));
}

/// Passes results of parts to the leader of a save, encoded and decoded as between two processes. Another thread than
/// the test's may call it: what went wrong is kept until `check`.
struct way_to {
  save_job& leader;
  std::shared_ptr<std::string> fault = std::make_shared<std::string>();

  void operator()(const part_result& part) const {
    const auto came = decode_part_result(encode(part));
    if (!came)
      *fault = came.error().text;
    else if (const auto taken = leader.take_part(*came); !taken)
      *fault = taken.error().text;
  }

  void check() const { BOOST_TEST(*fault == ""); }
};

/// Returns the contents of the files of a checkpoint that hold states, without their headers, which contain the save's
/// id.
std::map<std::string, std::string> shards_in(storage::file_system& files, const fs::path& folder) {
  std::map<std::string, std::string> out;
  const auto names = check_ok(files.list(folder));
  for (const auto& e : *names) {
    if (e.name == checkpoint::manifest_file_name) continue;
    auto text = check_ok(storage::read_small_file(files, folder / e.name, uint64_t{1} << 30));
    out[e.name] = text->substr(formats::shard_header_bytes);
  }
  return out;
}

void expect_same_checkpoint(storage::file_system& files, const fs::path& a, storage::file_system& other_files,
                            const fs::path& b) {
  auto one = checkpoint::open_folder(files, a), two = checkpoint::open_folder(other_files, b);
  BOOST_REQUIRE_MESSAGE(one.has_value(), (one ? "" : one.error().text));
  BOOST_REQUIRE_MESSAGE(two.has_value(), (two ? "" : two.error().text));
  BOOST_TEST((one->content.save_id != two->content.save_id));
  two->content.save_id = one->content.save_id;
  two->content.committed_unix_ns = one->content.committed_unix_ns;
  BOOST_TEST((one->content == two->content));
  BOOST_TEST((shards_in(files, a) == shards_in(other_files, b)));
}

/// Returns the result of a part of three blocks with digests.
part_result some_part() {
  return {.rank = 7,
          .file_bytes = 123'456'789'012,
          .waited_s = 0.25,
          .digests = {{{1, 2}, {3, 4}}, {}, {{UINT64_MAX, 5}}},
          .failure = {}};
}

/// Returns the text with its last 16 bytes replaced by the digest of the bytes before them.
std::string sealed(std::string text) {
  if (text.size() < 17) return text;
  text.resize(text.size() - 16);
  const auto d = storage::digest_of(text);
  text.append(reinterpret_cast<const char*>(&d.high), 8);
  text.append(reinterpret_cast<const char*>(&d.low), 8);
  return text;
}

}  // namespace

BOOST_AUTO_TEST_CASE(a_checkpoint_of_two_processes_is_that_of_one_bit_for_bit_whatever_the_stage) {
  for (uint32_t stage = 0; stage < 4; ++stage)
    for (const bool slim : {false, true}) BOOST_TEST_CONTEXT("stage " << stage << ", without frozen " << slim) {
        const save_rig r(three_ranks(stage), some_table(true));
        save_request request;
        request.exclude_frozen_parameters = slim;
        fake_files alone, shared;
        const auto wanted = r.save(alone, 7, request);
        BOOST_REQUIRE(!wanted.failure);

        auto leader = check_ok(r.begin(shared, 7, request, first_here));
        const way_to to_leader{**leader};
        const auto joined = join(r, shared, **leader, to_leader, request);
        r.run(joined, SIZE_MAX, others_here);
        BOOST_TEST(joined->is_over());
        BOOST_TEST(!(*leader)->is_over());
        r.run(*leader, SIZE_MAX, first_here);
        const auto report = (*leader)->wait(), own = joined->wait();
        to_leader.check();
        BOOST_TEST(!report.failure);
        BOOST_TEST(!own.failure);
        BOOST_TEST(report.folder == wanted.folder);
        BOOST_TEST(report.bytes == wanted.bytes);
        BOOST_TEST(own.folder.empty());
        BOOST_TEST(own.step == 7U);
        BOOST_TEST(own.bytes < report.bytes);
        expect_same_checkpoint(alone, wanted.folder, shared, report.folder);
        r.expect_in(shared, 7, !slim);
      }
}

BOOST_AUTO_TEST_CASE(two_processes_share_real_files_and_write_at_the_same_time) {
  const tests::scratch_folder folder;
  auto& files = storage::real_files();
  save_rig r(three_ranks(2), some_table(true));
  r.root = folder.path() / "alone";
  const auto wanted = r.save(files, 3);
  BOOST_REQUIRE(!wanted.failure);
  r.root = folder.path() / "shared";
  auto leader = check_ok(r.begin(files, 3, {}, first_here));
  const way_to to_leader{**leader};
  const auto joined = join(r, files, **leader, to_leader);
  std::string fault, others_fault;
  {
    const std::jthread other([&] { others_fault = r.fault_of_run(joined, SIZE_MAX, others_here); });
    fault = r.fault_of_run(*leader, SIZE_MAX, first_here);
  }
  BOOST_TEST(fault == "");
  BOOST_TEST(others_fault == "");
  to_leader.check();
  const auto report = (*leader)->wait();
  BOOST_REQUIRE_MESSAGE(!report.failure, (report.failure ? report.failure->text : ""));
  expect_same_checkpoint(files, wanted.folder, files, report.folder);
  r.expect_in(files, 3);
}

BOOST_AUTO_TEST_CASE(two_processes_save_every_step_to_memory_and_the_leading_one_loads_it) {
  storage::memory_files leading;
  const auto adopt = [](storage::memory_files& to, const storage::shared_file& f) {
    check_ok(to.adopt(f.path, f.descriptor < 0 ? -1 : ::dup(f.descriptor), f.bytes));
  };
  storage::memory_files other({.on_finished = [&](const auto& f) { adopt(leading, f); }});
  save_request request;
  request.keep_last = 1;
  uint64_t made = 0;
  fs::path before;  // folder in which the other process wrote its previous save
  for (uint64_t step = 1; step <= 5; ++step) {
    BOOST_TEST_INFO_SCOPE("step " << step);
    const save_rig r(three_ranks(2), some_table(true), static_cast<uint32_t>(step));
    auto leader = check_ok(r.begin(leading, step, request, first_here));
    check_ok((*leader)->prove());
    const auto working = (*leader)->invitation().working;
    BOOST_REQUIRE(storage::make_folders(other, working).has_value());
    const way_to to_leader{**leader};
    const auto joined = join(r, other, **leader, to_leader, request);
    r.run(joined, SIZE_MAX, others_here);
    r.run(*leader, SIZE_MAX, first_here);
    to_leader.check();
    const auto report = (*leader)->wait();
    BOOST_REQUIRE_MESSAGE(!report.failure, (report.failure ? report.failure->text : ""));
    BOOST_REQUIRE(other.rename(working, report.folder).has_value());
    if (!before.empty()) BOOST_REQUIRE(checkpoint::remove_files_and_folder(other, before).has_value());
    before = report.folder;
    r.expect_in(leading, step);
    if (step == 2) made = leading.use().made + other.use().made;

    const auto source = check_ok(checkpoint::open_native(leading, report.folder));
    const auto verified = check_ok(formats::verify_source(storage::real_files(), *source));
    BOOST_TEST(verified->damages == 0U);
    fake_files alone;
    const auto wanted = r.save(alone, step);
    expect_same_checkpoint(alone, wanted.folder, leading, report.folder);
  }
  // Later saves allocate no memory beyond that of the first two.
  BOOST_TEST(leading.use().made + other.use().made == made);
}

BOOST_AUTO_TEST_CASE(a_process_without_ranks_may_lead) {
  const save_rig r(three_ranks(1), some_table());
  fake_files files;
  auto leader = check_ok(r.begin(files, 4, {}, {false, false, false}));
  const ranks_here all(3, true);
  const way_to to_leader{**leader};
  const auto joined = join(r, files, **leader, to_leader, {}, all);
  r.run(joined);
  to_leader.check();
  BOOST_TEST(!(*leader)->wait().failure);
  r.expect_in(files, 4);
}

BOOST_AUTO_TEST_CASE(a_part_that_fails_elsewhere_fails_the_save_with_its_sentence_and_leaves_the_old_one) {
  const save_rig r(three_ranks(2), some_table());
  fake_files files;
  BOOST_REQUIRE(!r.save(files, 1).failure);
  auto leader = check_ok(r.begin(files, 2, {}, first_here));
  std::vector<part_result> told;
  const way_to to_leader{**leader};
  const auto joined = join(r, files, **leader, [&](const part_result& part) {
    told.push_back(part);
    to_leader(part);
  });
  files.fail_once_at(files.operations(), core::error_kind::no_space);
  r.run(joined, SIZE_MAX, others_here);
  to_leader.check();
  BOOST_REQUIRE(told.size() == 2U);
  BOOST_TEST(told[0].failure.has_value());
  BOOST_TEST(told[0].digests.empty());
  BOOST_TEST(!told[1].failure);
  BOOST_TEST((joined->wait().failure->kind == core::error_kind::no_space));
  r.run(*leader, SIZE_MAX, first_here);
  const auto report = (*leader)->wait();
  BOOST_REQUIRE(report.failure.has_value());
  BOOST_TEST((report.failure->kind == core::error_kind::no_space));
  BOOST_TEST(report.failure->text == told[0].failure->text);
  BOOST_TEST(report.folder.empty());
  r.expect_in(files, 1);
  BOOST_TEST(files.list(r.root)->size() == 2U);  // the files are the checkpoint of step 1 and `latest`
}

BOOST_AUTO_TEST_CASE(a_save_is_over_when_it_is_abandoned_though_parts_elsewhere_never_come) {
  const save_rig r(three_ranks(2), some_table());
  fake_files files;
  auto leader = check_ok(r.begin(files, 2, {}, first_here));
  part_result late;
  const auto joined = join(r, files, **leader, [&](const part_result& part) { late = part; });
  r.run(*leader, SIZE_MAX, first_here);
  BOOST_TEST(!(*leader)->is_over());
  (*leader)->abandon({core::error_kind::peer_lost, "process 1 is gone"});
  BOOST_TEST((*leader)->is_over());
  const auto failure = check_ok((*leader)->wait().failure);
  BOOST_TEST(says(failure->text, "it was cut off: process 1 is gone"));
  BOOST_TEST(files.list(r.root)->empty());

  // The other process is slow but not lost: its folder is removed meanwhile, and the leader ignores its part.
  r.run(joined, SIZE_MAX, others_here);
  BOOST_TEST(joined->is_over());
  BOOST_TEST(late.failure.has_value());
  BOOST_TEST((*leader)->take_part(late).has_value());
  BOOST_TEST(files.list(r.root)->empty());
}

BOOST_AUTO_TEST_CASE(a_joined_save_that_is_abandoned_tells_of_each_of_its_ranks_once) {
  const save_rig r(three_ranks(2), some_table());
  fake_files files;
  auto leader = check_ok(r.begin(files, 2, {}, first_here));
  std::vector<uint32_t> told;
  const way_to to_leader{**leader};
  const auto joined = join(r, files, **leader, [&](const part_result& part) {
    told.push_back(part.rank);
    BOOST_TEST(part.failure.has_value());
    to_leader(part);
  });
  joined->abandon({core::error_kind::stopped, "Ctrl-C"});
  r.run(joined, SIZE_MAX, others_here);  // the save has already ended, so the call has no effect
  to_leader.check();
  BOOST_TEST(told == (std::vector<uint32_t>{1, 2}), boost::test_tools::per_element());
  BOOST_TEST(joined->is_over());
  (*leader)->abandon({core::error_kind::stopped, "Ctrl-C"});
  BOOST_TEST((*leader)->wait().failure.has_value());
}

BOOST_AUTO_TEST_CASE(a_part_that_is_not_as_the_plan_says_fails_the_save_and_one_of_no_such_rank_is_refused) {
  const save_rig r(three_ranks(2), some_table());
  for (const auto& spoil : std::vector<std::function<void(part_result&)>>{
           [](auto& part) { part.file_bytes += 4096; }, [](auto& part) { part.digests.pop_back(); },
           [](auto& part) { part.digests[0].pop_back(); }, [](auto& part) { part.digests.back().emplace_back(); }}) {
    fake_files files;
    auto leader = check_ok(r.begin(files, 2, {}, first_here));
    for (const uint32_t rank : {0U, 3U, UINT32_MAX}) {
      BOOST_TEST_INFO_SCOPE("rank " << rank);
      check_failed((*leader)->take_part({.rank = rank}), core::error_kind::bad_input);
    }
    const way_to to_leader{**leader};
    const auto joined = join(r, files, **leader, [&](part_result part) {
      if (part.rank == 2) spoil(part);
      to_leader(part);
      to_leader(part);  // the repeated result changes nothing
    });
    r.run(joined, SIZE_MAX, others_here);
    to_leader.check();
    r.run(*leader, SIZE_MAX, first_here);
    const auto report = (*leader)->wait();
    BOOST_REQUIRE(report.failure.has_value());
    BOOST_TEST((report.failure->kind == core::error_kind::mismatch));
    BOOST_TEST(says(report.failure->text, "the save's part of rank 2: wanted "), report.failure->text);
    BOOST_TEST(files.list(r.root)->empty());
  }
}

BOOST_AUTO_TEST_CASE(what_processes_tell_each_other_comes_back_as_it_was) {
  auto part = some_part();
  const auto whole = check_ok(decode_part_result(encode(part)));
  BOOST_TEST(whole->rank == 7U);
  BOOST_TEST(whole->file_bytes == part.file_bytes);
  BOOST_TEST(whole->waited_s == 0.25);
  BOOST_TEST((whole->digests == part.digests));
  BOOST_TEST(!whole->failure);
  part.failure = {core::error_kind::no_space, "'/a/b': no room"};
  const auto failed = check_ok(decode_part_result(encode(part)));
  BOOST_TEST((failed->failure->kind == core::error_kind::no_space));
  BOOST_TEST(failed->failure->text == "'/a/b': no room");

  save_request request;
  request.root = "/somewhere/else";
  request.configuration = std::string("a: b\n\0c", 7);
  request.client_state = "{\"epoch\": 3}";
  request.keep_last = 3;
  request.keep_every = uint64_t{1} << 40;
  request.exclude_frozen_parameters = true;
  request.tag = "best";
  request.save_latest = false;
  const auto asked = check_ok(decode_save_request(encode(request)));
  BOOST_TEST(asked->root == request.root);
  BOOST_TEST(asked->configuration == request.configuration);
  BOOST_TEST(asked->client_state == request.client_state);
  BOOST_TEST(asked->keep_last == 3U);
  BOOST_TEST(asked->keep_every == request.keep_every);
  BOOST_TEST(asked->exclude_frozen_parameters);
  BOOST_TEST(asked->tag == "best");
  BOOST_TEST(!asked->save_latest);

  const save_invitation invitation{"/checkpoints/step-00000001.writing-0", {1, 2}};
  BOOST_TEST((decode_save_invitation(encode(invitation)) == invitation));
  BOOST_TEST(!decode_save_invitation(encode(request)).has_value());
}

BOOST_AUTO_TEST_CASE(bytes_that_are_cut_short_or_changed_are_refused) {
  auto part = some_part();
  part.failure = {core::error_kind::io, "gone"};
  const std::string texts[] = {encode(part), encode(save_invitation{"/a", {1, 2}}), encode(save_request{})};
  const auto look = [](const std::string& text, bool may_be_good) {
    const core::error* why[3] = {};
    const auto a = decode_part_result(text);
    const auto b = decode_save_invitation(text);
    const auto c = decode_save_request(text);
    if (!a) why[0] = &a.error();
    if (!b) why[1] = &b.error();
    if (!c) why[2] = &c.error();
    for (const auto* e : why) {
      if (!may_be_good) BOOST_TEST(e != nullptr);
      if (e != nullptr) BOOST_TEST((e->kind == core::error_kind::bad_input));
    }
  };
  for (const auto& valid : texts) {
    for (size_t n = 0; n < valid.size(); ++n) look(valid.substr(0, n), false);
    tests::for_mutations(valid, 5, {"pir\x01\xFF\x10", 64}, [&](size_t, const std::string& text) {
      if (text != valid) look(text, false);
      look(sealed(text), true);  // the damaged text has a valid digest
    });
  }
}

BOOST_AUTO_TEST_SUITE_END()
