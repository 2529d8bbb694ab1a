// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if Tools
import LarderSystem
import LarderTesting

/// The progress of a fuzzing process in memory that outlives it: the current input, stored before
/// it is decoded.
final class FuzzBoard: Sendable {
  /// The words before the bytes of the input.
  private enum Word: Int {
    case runs, corpus, count, since
    case input = 8
  }

  private let words: SharedWords

  init(path: String) throws { words = try SharedWords(path: path, size: 1 << 20) }

  /// The number of completed inputs.
  var runs: UInt64 { words[Word.runs.rawValue] }
  /// The nanoseconds since the current input began, or zero without one.
  var age: UInt64 {
    let since = words[Word.since.rawValue]
    let now = Clocks.monotonicNanoseconds()
    return since == 0 || now < since ? 0 : now - since
  }

  func begin(_ input: [UInt8]) {
    words[Word.count.rawValue] = UInt64(words.write(input, at: Word.input.rawValue))
    words[Word.since.rawValue] = Clocks.monotonicNanoseconds()
  }

  func end(corpus: Int) {
    words[Word.corpus.rawValue] = UInt64(corpus)
    words[Word.since.rawValue] = 0
    words.add(Word.runs.rawValue)
  }

  /// The input that was begun last.
  var input: [UInt8] {
    words.bytes(at: Word.input.rawValue, count: Int(words[Word.count.rawValue]))
  }
}

/// The loop of a fuzzing process: mutates inputs and runs them until its time has ended.
struct FuzzLoop {
  /// The largest number of inputs in the corpus of one target.
  static let maximumCorpus = 4000

  let target: any FuzzTarget
  let board: FuzzBoard
  /// The directory of the inputs with new outcomes, from which the next run starts.
  let corpus: String

  func run(seed: UInt64, seconds: Double) throws {
    var random = Seed(seed).generator(stream: 1 << 35)
    var inputs = try target.seeds(&random)
    for name in TestFiles.names(in: corpus).prefix(Self.maximumCorpus) {
      inputs.append(try TestFiles.contents(of: corpus + "/" + name))
    }
    var outcomes: Set<UInt64> = []
    for input in inputs { outcomes.insert(run(input, inputs.count)) }
    let end = Clocks.monotonicNanoseconds() + UInt64(seconds * 1e9)
    while Clocks.monotonicNanoseconds() < end {
      // Recent inputs lead to new outcomes more often.
      let from = random.chance(50) ? max(inputs.count - 50, 0) : 0
      let parent = inputs[Int.random(in: from..<inputs.count, using: &random)]
      let other = inputs.randomElement(using: &random)!
      var input = FuzzMutator.mutate(parent, other: other, &random)
      if input.count > 1 << 19 || input.isEmpty { continue }
      if random.chance(60) { target.repair(&input) }
      let outcome = run(input, inputs.count)
      if outcomes.insert(outcome).inserted, inputs.count < Self.maximumCorpus {
        inputs.append(input)
        try TestFiles.write(input, to: corpus + "/" + Self.name(of: input))
      }
    }
  }

  static func name(of input: [UInt8]) -> String { String(XXH64.hash(input), radix: 16) }

  private func run(_ input: [UInt8], _ count: Int) -> UInt64 {
    guard !input.isEmpty else { return 0 }
    board.begin(input)
    let outcome = target.run(input)
    board.end(corpus: count)
    return outcome
  }
}
#endif
