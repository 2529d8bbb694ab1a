// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderTesting
import Testing

#if canImport(Darwin)
import Darwin
#else
import Glibc
#endif

@Suite struct SeededRandomTests {
  @Test func `SplitMix64 gives the published numbers`() {
    // Rosetta Code, "Pseudo-random numbers/Splitmix64", seed 1234567.
    var generator = SplitMix64(state: 1_234_567)
    #expect(
      (0..<5).map { _ in generator.next() } == [
        6_457_827_717_110_365_317, 3_203_168_211_198_807_973, 9_817_491_932_198_370_423,
        4_593_380_528_125_082_431, 16_408_922_859_458_223_821,
      ])
  }

  @Test func `Xoshiro256** gives the published numbers`() {
    // The test vector of Rust's rand_xoshiro, made with the authors' C code.
    var generator = SeededRandom(state: (1, 2, 3, 4))
    #expect(
      (0..<4).map { _ in generator.next() } == [
        11_520, 0, 1_509_978_240, 1_215_971_899_390_074_240,
      ])
  }

  @Test func `The same seed gives the same numbers, another stream others`() {
    let seed = Seed(42)
    func numbers(_ stream: UInt64) -> [UInt64] {
      var generator = seed.generator(stream: stream)
      return (0..<10).map { _ in generator.next() }
    }
    #expect(numbers(0) == numbers(0))
    #expect(Set((0..<100).flatMap { numbers($0) }).count == 1000)
  }

  @Test func `The first trial is the seed itself, so a failed trial can be repeated`() {
    let trials = Array(Seed(7).trials(10))
    #expect(trials.first == Seed(7))
    #expect(Set(trials).count == 10)
    #expect(Array(trials[5].trials(1)) == [trials[5]])
  }

  @Test func `A seed prints as what repeats it`() {
    #expect("\(Seed(0xbeef))" == "LARDER_SEED=0xbeef")
  }

  @Test(arguments: [("48879", "0xbeef"), ("0xBEEF", "0xbeef"), ("0", "0x0")])
  func `A seed given in the environment is the one announced`(
    given: String, announced: String
  ) async throws {
    let result = try await #require(
      processExitsWith: .success, observing: [\.standardErrorContent]
    ) { [given = given as String] in
      unsafe setenv(Seed.variable, given, 1)
      _ = Seed.announce("a test")
    }
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("LARDER_SEED=\(announced) (a test)\n"))
  }

  @Test func `A seed that is not a number ends the run with a sentence`() async throws {
    let result = try await #require(
      processExitsWith: .failure, observing: [\.standardErrorContent]
    ) {
      unsafe setenv(Seed.variable, "salt", 1)
      _ = Seed.announce()
    }
    let text = String(decoding: result.standardErrorContent, as: UTF8.self)
    #expect(text.contains("Set it to a number"))
  }
}
