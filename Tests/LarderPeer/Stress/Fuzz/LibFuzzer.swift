// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

// The entry points of libFuzzer, which has its `main`. scripts/fuzz compiles this file with the
// targets of this directory and without the rest of the module.

#if LIBFUZZER
import LarderTesting

#if canImport(Glibc)
import Glibc
#elseif canImport(Musl)
import Musl
#else
import Darwin
#endif

/// The target that LARDER_FUZZ_TARGET names.
private let target: any FuzzTarget = {
  let name = unsafe getenv("LARDER_FUZZ_TARGET").map { unsafe String(cString: $0) } ?? ""
  guard let target = FuzzTargets.named(name) else { fatalError("no target \"\(name)\"") }
  return target
}()

/// Writes the valid inputs a corpus starts from.
@_cdecl("LLVMFuzzerInitialize")
public func initializeFuzzer(
  _ count: UnsafeMutableRawPointer, _ arguments: UnsafeMutableRawPointer
) -> CInt {
  guard let directory = unsafe getenv("LARDER_FUZZ_SEEDS").map({ unsafe String(cString: $0) })
  else { return 0 }
  var random = SeededRandom(seed: 1)
  for (number, seed) in ((try? target.seeds(&random)) ?? []).enumerated() {
    try? TestFiles.write(seed, to: "\(directory)/seed-\(number)")
  }
  return 0
}

@_cdecl("LLVMFuzzerTestOneInput")
public func fuzzOneInput(_ bytes: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
  guard let bytes = unsafe bytes, count > 0 else { return 0 }
  var input = unsafe Array(UnsafeBufferPointer(start: bytes, count: count))
  _ = target.run(input)
  // Again with correct checksums, so that the bytes they protect are decoded.
  target.repair(&input)
  _ = target.run(input)
  return 0
}
#endif
