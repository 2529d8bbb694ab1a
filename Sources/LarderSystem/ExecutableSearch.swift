// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import CLarderLMDB

#if canImport(Glibc)
internal import Glibc
#elseif canImport(Musl)
internal import Musl
#else
internal import Darwin
#endif

/// The search for a command's program, by the rules of a shell.
package enum ExecutableSearch {
  package enum Search: Hashable, Sendable {
    /// The path of the file that runs, absolute unless the working directory has no path. Links are
    /// not followed.
    case found([UInt8])
    /// No such file; a shell exits with status 127.
    case missing
    /// The file exists but is not executable; a shell exits with status 126.
    case forbidden([UInt8])
  }

  private static let slash = UInt8(ascii: "/")

  /// Finds `name`: with a slash it is a path, absolute or from the working directory; without one,
  /// the function searches the directories of `PATH` in order. None of them need be UTF-8.
  package static func find(_ name: [UInt8], in searchPath: [UInt8]? = nil) -> Search {
    if name.isEmpty { return .missing }
    if name.contains(slash) { return judge(absolute(name)) }
    let path =
      searchPath ?? FileSystem.environmentBytes("PATH")
      ?? Array("/usr/local/bin:/usr/bin:/bin".utf8)
    var forbidden: Search?
    for directory in path.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false) {
      // POSIX: an empty part is the working directory.
      let place = directory.isEmpty ? name : directory + [slash] + name
      switch judge(absolute(place)) {
      case .found(let path): return .found(path)
      case .forbidden(let path): forbidden = forbidden ?? .forbidden(path)
      case .missing: break
      }
    }
    return forbidden ?? .missing
  }

  private static func absolute(_ path: [UInt8]) -> [UInt8] {
    guard path.first != slash, let directory = FileSystem.currentDirectory else { return path }
    return directory + [slash] + path
  }

  private static func judge(_ path: [UInt8]) -> Search {
    let status: FileStatus?
    do { status = try FileSystem.status(of: path) } catch {
      return error.errno == EACCES ? .forbidden(path) : .missing
    }
    guard let status else { return .missing }
    guard status.isRegularFile, FileSystem.isExecutable(path) else { return .forbidden(path) }
    return .found(path)
  }

  /// The path of this process's program, or `nil` if the system does not provide it.
  package static var own: String? {
    #if canImport(Darwin)
    var size: UInt32 = 4096
    var bytes = [CChar](repeating: 0, count: Int(size))
    guard unsafe _NSGetExecutablePath(&bytes, &size) == 0 else { return nil }
    return String(decoding: bytes.prefix { $0 != 0 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    #else
    // Not resolved: this name runs the same program even after its file was replaced.
    return "/proc/self/exe"
    #endif
  }
}
