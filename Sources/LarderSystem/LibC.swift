// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// `memcmp`, for files that do not import libc and its names.
@unsafe @inline(__always)
func compareBytes(_ left: UnsafeRawPointer, _ right: UnsafeRawPointer, _ count: Int) -> CInt {
  unsafe memcmp(left, right, count)
}

/// Runs `body` when the process exits normally.
package func atProcessExit(_ body: @escaping @convention(c) () -> Void) {
  atexit(body)
}

/// Returns the last `count` arguments of this process, as bytes: they need not be UTF-8.
package func lastArguments(_ count: Int) -> [[UInt8]] {
  let all = Int(CommandLine.argc)
  return (max(all - count, 0)..<all).map(argument)
}

/// The position of the first argument before `--` that is not UTF-8, if there is one.
package func argumentWithoutText() -> Int? {
  for index in 1..<max(Int(CommandLine.argc), 1) {
    let bytes = argument(index)
    if bytes == Array("--".utf8) { return nil }
    if String(validating: bytes, as: UTF8.self) == nil { return index }
  }
  return nil
}

private func argument(_ index: Int) -> [UInt8] {
  guard let text = unsafe CommandLine.unsafeArgv[index] else { return [] }
  return unsafe UnsafeBufferPointer(start: text, count: strlen(text)).map { UInt8(bitPattern: $0) }
}
