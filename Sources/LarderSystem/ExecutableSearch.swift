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

/// Where a command's program is, found as a shell finds it.
package enum ExecutableSearch {
  package enum Search: Hashable, Sendable {
    /// The path of the file that runs, absolute unless the working directory has no path. Links are
    /// not followed.
    case found([UInt8])
    /// A shell ends with 127 then.
    case missing
    /// There is such a file, and it may not be run: 126.
    case forbidden([UInt8])
  }

  private static let slash = UInt8(ascii: "/")

  /// Finds `name`: with a slash it is a path, absolute or from the working directory; without one it
  /// is looked for in the directories of `PATH`, in turn. None of them need be UTF-8.
  package static func find(_ name: [UInt8], in searchPath: [UInt8]? = nil) -> Search {
    if name.isEmpty { return .missing }
    if name.contains(slash) { return judge(absolute(name)) }
    let path =
      searchPath ?? FileSystem.environmentBytes("PATH")
      ?? Array("/usr/local/bin:/usr/bin:/bin".utf8)
    var forbidden: Search?
    for directory in path.split(separator: UInt8(ascii: ":"), omittingEmptySubsequences: false) {
      // An empty part means the working directory; so says POSIX.
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

  /// The file this process runs; `nil` where the system does not tell.
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
