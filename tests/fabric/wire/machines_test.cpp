// Tests properties of members on several machines: bits, bytes between machines and staging memory on any layout, links
// that are lost at any moment, missing members, and members that end before others.
#include <fmt/format.h>

#include <boost/test/unit_test.hpp>

#include <deque>

#include "fabric/wire/traffic.hpp"
#include "tests/fabric/operands.hpp"
#include "tests/fabric/wire_company.hpp"

BOOST_AUTO_TEST_SUITE(machines)

namespace {

using namespace troupe;
using namespace troupe::tests;
using core::dtype;
using fabric::operation;

template <class T>
T one_of(std::mt19937& random, std::initializer_list<T> all) {
  return all.begin()[random() % all.size()];
}

/// Returns the machine and process of up to seven members, on up to four machines with one or more processes.
std::vector<fabric::home> random_homes(std::mt19937& random) {
  std::vector<fabric::home> out;
  const auto machines = static_cast<uint32_t>(1 + random() % 4);
  for (uint32_t k = 0, place = 0; k < machines && out.size() < 7; ++k, ++place) {
    const auto members = static_cast<uint32_t>(1 + random() % 3);
    for (uint32_t i = 0; i < members; ++i) {
      if (i > 0 && random() % 2 == 0) ++place;
      out.push_back({10 - k, place});
    }
  }
  return out;
}

scene random_scene(uint32_t size, std::mt19937& random) {
  scene s;
  s.size = size;
  s.request.op = one_of(random, {operation::all_gather, operation::broadcast, operation::barrier,
                                 operation::reduce_scatter, operation::all_reduce, operation::all_to_all,
                                 size == 2 ? operation::send_receive : operation::reduce_scatter});
  const operation op = s.request.op;
  const uint64_t most = one_of<uint64_t>(random, {3, 200, 5'000});
  if (op == operation::barrier) return s;
  if (op == operation::all_to_all) {
    s.request.input_type = s.request.output_type = one_of(random, {dtype::u8, dtype::bf16, dtype::f64});
    for (uint32_t m = 0; m < size; ++m) s.pieces.push_back({m, 5, 2 + m * (most + 3), most});
    return s;
  }
  const auto any = [&] { return one_of(random, {dtype::f32, dtype::bf16, dtype::f16, dtype::f64}); };
  s.request.input_type = s.request.output_type = any();
  if (fabric::is_reduction(op)) {
    s.request.communication = random() % 2 == 0 ? s.request.input_type : any();
    s.request.input_scale = random() % 2 == 0 ? 1.0F : 0.3F;
    s.in_place = random() % 3 == 0;
    if (!s.in_place) {
      s.request.accumulate = random() % 2 == 0;
      s.request.output_type = any();
    }
  } else {
    s.in_place = op != operation::send_receive && random() % 2 == 0;
  }
  if (op == operation::reduce_scatter && size % 2 == 0 && random() % 2 == 0)
    s.pieces = pieces_of_replicas(size, one_of(random, {size / 2, size, 1U}), s.in_place, 3, most, random);
  else
    s.pieces = ragged_pieces(op, size, s.in_place, 1 + random() % 5, most, random);
  return s;
}

/// Members that all-reduce repeatedly, with barriers in between; no member leaves or aborts.
struct endless_company {
  explicit endless_company(uint32_t size, size_t operations = 30)
      : pieces{{0, 0, 0, 1'000}, {size > 1 ? 1U : 0U, 1'000, 1'000, 2'000}},
        memory(size, shared_vector<float>(3'000, 1.0F)),
        parts(size) {
    for (uint32_t rank = 0; rank < size; ++rank) {
      parts[rank].window = 3;
      for (size_t i = 0; i < operations; ++i) {
        fabric::request r;
        r.id = {.step = 4, .communicator = 9, .sequence = i, .what = fmt::format("reduce bucket {}", i)};
        r.op = i % 4 == 3 ? operation::barrier : operation::all_reduce;
        if (r.op == operation::all_reduce) r.pieces = pieces;
        r.input = reinterpret_cast<const std::byte*>(memory[rank].data());
        r.output = reinterpret_cast<std::byte*>(memory[rank].data());
        parts[rank].requests.push_back(r);
      }
    }
  }
  std::vector<fabric::piece> pieces;
  std::vector<shared_vector<float>> memory;
  std::vector<part> parts;
};

}  // namespace

BOOST_AUTO_TEST_CASE(any_operations_on_any_layout_have_the_bits_of_one_process_and_the_bytes_of_the_formula) {
  for (uint32_t seed = 0; seed < 400; ++seed) {
    std::mt19937 random(seed);
    const auto where = random_homes(random);
    const auto size = static_cast<uint32_t>(where.size());
    fabric::wire_limits limits = small_limits();
    limits.incoming_bytes = one_of<uint64_t>(random, {10'000, 20'000, 100'000});
    limits.outgoing_bytes = one_of<uint64_t>(random, {1'024, 5'000});
    limits.result_bytes = one_of<uint64_t>(random, {1'024, 5'000});
    std::deque<operands> all;
    std::vector<part> parts(size);
    wire_stage stage(where, limits, seed);
    std::vector<uint64_t> wanted(stage.world().where.machines());
    for (uint64_t sequence = 0; sequence < 6; ++sequence) {
      scene s = random_scene(size, random);
      fabric::request r = s.request;
      r.pieces = s.pieces;
      const auto bytes = fabric::wire_bytes(r, stage.world().where);
      for (size_t k = 0; k < bytes.size(); ++k) wanted[k] += bytes[k];
      all.emplace_back(std::move(s), sequence, seed * 10 + static_cast<uint32_t>(sequence));
    }
    for (uint32_t rank = 0; rank < size; ++rank) {
      parts[rank].window = 1 + random() % 6;
      for (operands& o : all) parts[rank].requests.push_back(o.request(rank));
    }
    for (const ending& e : run_on_stage(stage, std::move(parts), seed)) BOOST_TEST(!e.has_value(), (e ? e->text : ""));
    for (const operands& o : all) o.check();
    BOOST_TEST((stage.world().received() == wanted), "seed " << seed);
    for (const auto& [place, group] : stage.world().groups) {
      uint64_t members = 0;
      for (const auto& h : where) members += h.place == place;
      BOOST_TEST(group->most_staged_bytes() <=
                 members * (limits.incoming_bytes + limits.outgoing_bytes + limits.result_bytes));
    }
  }
}

BOOST_AUTO_TEST_CASE(a_process_lost_at_any_moment_ends_all_members_with_an_error_that_names_it) {
  int ended_early = 0;
  for (uint32_t seed = 0; seed < 300; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    std::mt19937 random(seed);
    auto where = random_homes(random);
    if (where.front().machine == where.back().machine) where.push_back({77, 77});
    const auto size = static_cast<uint32_t>(where.size());
    endless_company c(size);
    wire_stage stage(where, small_limits(), seed);
    const uint32_t lost = where[random() % size].place;
    stage.lose_at(random() % 1'500, lost);
    const auto ends = run_on_stage(stage, c.parts, seed);
    for (const ending& e : ends) {
      if (!e) continue;
      ++ended_early;
      BOOST_TEST((e->kind == core::error_kind::peer_lost), e->text);
      BOOST_TEST(e->text.find(fmt::format("process {} was lost", lost)) != std::string::npos, e->text);
    }
  }
  BOOST_TEST(ended_early > 500);
}

BOOST_AUTO_TEST_CASE(a_transfer_that_fails_ends_the_communicator_on_all_machines) {
  // Only the link reports its loss; all members of both machines wait for each other.
  for (uint32_t seed = 0; seed < 30; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    fake_world world({{0, 0}, {0, 0}, {1, 1}}, small_limits(), seed);
    std::vector<std::pair<uint32_t, uint64_t>> woken;
    std::vector<std::unique_ptr<fabric::communicator>> members;
    endless_company c(3, 1);
    for (uint32_t m = 0; m < 3; ++m)
      members.push_back(
          world.groups.at(world.where.place_of(m))->join(m, [&woken, m](uint64_t s) { woken.emplace_back(m, s); }));
    for (uint32_t m = 0; m < 3; ++m)
      BOOST_TEST_CONTEXT("m " << m) BOOST_REQUIRE(members[m]->post(c.parts[m].requests[0]));
    while (world.wires->step()) {
    }
    for (uint32_t m = 0; m < 2; ++m)
      BOOST_TEST_CONTEXT("m " << m) BOOST_TEST((members[m]->advance(0).value() == fabric::progress::pending));
    // Rank 0's neighbour, rank 1, waits for rank 2 as well.
    BOOST_TEST((members[0]->missing(0) == std::vector<uint32_t>{0, 2}));
    world.wires->lose(1, {core::error_kind::peer_lost, "process 1 was lost"});
    woken.clear();
    while (world.wires->step()) {
    }
    BOOST_REQUIRE(!woken.empty());
    const auto failed = members[woken.front().first]->advance(0);
    BOOST_REQUIRE(!failed);
    BOOST_TEST(
        failed.error().text ==
        "all_reduce 'reduce bucket 0' (communicator 9, step 4, sequence 0) waits for rank 2: process 1 was lost");
    for (uint32_t m = 0; m < 2; ++m)
      BOOST_TEST_CONTEXT("m " << m) BOOST_TEST(members[m]->advance(0).error().text == failed.error().text);
  }
}

BOOST_AUTO_TEST_CASE(those_who_have_not_arrived_are_named_on_every_machine) {
  fake_world world({{0, 0}, {0, 1}, {1, 2}}, small_limits(), 1);
  endless_company c(3, 1);
  std::vector<std::unique_ptr<fabric::communicator>> members;
  for (uint32_t m = 0; m < 3; ++m) members.push_back(world.groups.at(m)->join(m, {}));
  BOOST_TEST((members[0]->missing(0) == std::vector<uint32_t>{0, 1, 2}));
  const auto settle = [&] {
    while (true) {
      if (world.wires->step()) continue;
      const auto place = world.next_ring();
      if (!place) break;
      world.groups.at(*place)->look();
    }
  };
  BOOST_REQUIRE(members[1]->post(c.parts[1].requests[0]));
  settle();
  for (const auto& m : members) BOOST_TEST((m->missing(0) == std::vector<uint32_t>{0, 2}));
  BOOST_REQUIRE(members[2]->post(c.parts[2].requests[0]));
  settle();
  for (const auto& m : members) BOOST_TEST((m->missing(0) == std::vector<uint32_t>{0}));
  BOOST_REQUIRE(members[0]->post(c.parts[0].requests[0]));
  for (int round = 0; round < 9; ++round) {
    BOOST_TEST_INFO_SCOPE("round " << round);
    settle();
    for (const auto& m : members) BOOST_REQUIRE(m->advance(0).has_value());
  }
  for (const auto& m : members) {
    BOOST_TEST((m->advance(0).value() == fabric::progress::done));
    BOOST_TEST(m->missing(0).empty());
  }
}

BOOST_AUTO_TEST_CASE(a_member_that_leaves_when_it_has_done_all_does_no_harm_to_machines_that_have_not) {
  for (uint32_t seed = 0; seed < 100; ++seed) {
    BOOST_TEST_INFO_SCOPE("seed " << seed);
    std::mt19937 random(seed);
    const auto where = random_homes(random);
    const auto size = static_cast<uint32_t>(where.size());
    endless_company c(size, 5);
    wire_stage stage(where, small_limits(), seed);
    for (const ending& e : run_on_stage(stage, c.parts, seed)) BOOST_TEST(!e.has_value(), (e ? e->text : ""));
  }
}

BOOST_AUTO_TEST_CASE(a_machine_may_be_far_ahead_of_another) {
  // Member 2, on the second machine, completes each operation long before the members of the first machine poll it
  // again.
  fake_world world({{0, 0}, {0, 0}, {1, 1}}, small_limits(), 1, 4);
  std::vector<std::unique_ptr<fabric::communicator>> members;
  for (uint32_t m = 0; m < 3; ++m) members.push_back(world.groups.at(world.where.place_of(m))->join(m, {}));
  const auto barrier = [](uint64_t sequence) {
    fabric::request r;
    r.id = {.step = 1, .communicator = 0, .sequence = sequence, .what = "meet"};
    return r;
  };
  const auto settle = [&] {
    while (world.wires->step()) {
    }
  };
  for (uint64_t s = 0; s < 4; ++s)
    for (const auto& m : members) BOOST_REQUIRE(m->post(barrier(s)));
  settle();
  for (uint64_t s = 0; s < 4; ++s) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    BOOST_TEST((members[2]->advance(s).value() == fabric::progress::done));
    BOOST_REQUIRE(members[2]->post(barrier(4 + s)));
    settle();
  }
  BOOST_TEST((members[0]->missing(0) == std::vector<uint32_t>{0, 1}), "its slots are not written over");
  for (uint64_t s = 0; s < 8; ++s) {
    BOOST_TEST_INFO_SCOPE("s " << s);
    for (uint32_t m = 0; m < 2; ++m) {
      BOOST_TEST_INFO_SCOPE("m " << m);
      if (s >= 4) BOOST_REQUIRE(members[m]->post(barrier(s)));
      settle();
      BOOST_REQUIRE(members[m]->advance(s).has_value());
    }
    BOOST_TEST((members[0]->advance(s).value() == fabric::progress::done));
    settle();
  }
  for (uint64_t s = 4; s < 8; ++s)
    BOOST_TEST_CONTEXT("s " << s) BOOST_TEST((members[2]->advance(s).value() == fabric::progress::done));
}

BOOST_AUTO_TEST_CASE(a_note_that_is_none_ends_the_communicator_and_names_who_sent_it) {
  fake_world world({{0, 0}, {1, 1}}, small_limits(), 1);
  const auto a = world.groups.at(0)->join(0, {}), b = world.groups.at(1)->join(1, {});
  // The message has the right communicator, but claims to be from a member on the receiver's own machine.
  world.movers.at(1)->note(0, fabric::text_of(5, {fabric::wire_note::kind::arrived, 0, 0, {}, {}}));
  while (world.wires->step()) {
  }
  endless_company c(2, 1);
  for (const auto* m : {&a, &b}) {
    const auto refused = (*m)->post(c.parts[(*m)->rank()].requests[0]);
    BOOST_REQUIRE(!refused);
    BOOST_TEST(refused.error().text.find("process 1: a note of its machine's members was wanted") != std::string::npos);
  }
}

BOOST_AUTO_TEST_SUITE_END()
