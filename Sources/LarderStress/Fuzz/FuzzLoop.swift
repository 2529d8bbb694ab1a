// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

import LarderSystem
import LarderTesting
import Synchronization

/// What a fuzzing process says of itself in memory that outlives it: the input it is at, before it
/// is decoded.
final class FuzzBoard: Sendable {
  private static let size = 1 << 20
  private static let inputStart = 64

  private let file: OwnedFile
  private let region: MappedRegion

  init(path: String) throws {
    file = try OwnedFile(path: path, creation: .createIfMissing)
    if try file.status.size < Self.size { try file.preallocate(Self.size) }
    region = try MappedRegion(sharing: file, count: Self.size)
  }

  private func word(_ index: Int) -> UnsafeMutablePointer<Atomic<UInt64>> {
    unsafe (region.base + index * 8).assumingMemoryBound(to: Atomic<UInt64>.self)
  }

  /// Inputs run so far.
  var runs: UInt64 { unsafe word(0).pointee.load(ordering: .sequentiallyConsistent) }
  var corpus: UInt64 { unsafe word(1).pointee.load(ordering: .sequentiallyConsistent) }
  /// Nanoseconds the input at hand has been running.
  var age: UInt64 {
    let since = unsafe word(3).pointee.load(ordering: .sequentiallyConsistent)
    let now = Clocks.monotonicNanoseconds()
    return since == 0 || now < since ? 0 : now - since
  }

  func begin(_ input: [UInt8]) {
    let count = min(input.count, Self.size - Self.inputStart)
    unsafe input.withUnsafeBytes { bytes in
      unsafe (region.base + Self.inputStart).copyMemory(from: bytes.baseAddress!, byteCount: count)
    }
    unsafe word(2).pointee.store(UInt64(count), ordering: .sequentiallyConsistent)
    unsafe word(3).pointee.store(Clocks.monotonicNanoseconds(), ordering: .sequentiallyConsistent)
  }

  func end(corpus: Int) {
    unsafe word(1).pointee.store(UInt64(corpus), ordering: .relaxed)
    unsafe word(3).pointee.store(0, ordering: .relaxed)
    unsafe word(0).pointee.wrappingAdd(1, ordering: .relaxed)
  }

  /// The input that was begun last.
  func input() throws -> [UInt8] {
    let count = unsafe word(2).pointee.load(ordering: .sequentiallyConsistent)
    return try file.read(count: Int(count), at: Self.inputStart)
  }
}

/// Mutates inputs and runs them, in a process of its own, until it is killed or its time is over.
struct FuzzLoop {
  /// What a corpus of one target keeps at most.
  static let maximumCorpus = 4000

  let target: any FuzzTarget
  let board: FuzzBoard
  /// Where inputs with new outcomes are kept, and found again by the next run.
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
      // New inputs lead further, more often than not.
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
