// Larder — an embedded, multi-process cache and object store.
// Copyright 2026 the Larder authors. Licensed under Apache-2.0.
// SPDX-License-Identifier: Apache-2.0

internal import LarderSystem

/// The checks that no other user can replace or change an environment's directory and files.
enum EnvironmentDirectory {
  /// Opens the directory, and creates it if it does not exist; see ``HeldDirectory``.
  static func hold(_ path: String) throws(LMDBError) -> HeldDirectory {
    do throws(PathWalkError) {
      return try HeldDirectory(path, creating: true)
    } catch {
      switch error {
      case .system(let error), .notCreated(let error): throw LMDBError(error)
      case .danglingLink(let link):
        throw LMDBError.system(2, during: "open \(path) (the target of the link \(link))")
      case .foreignLink(let link, let owner):
        throw refusal(path, "\(link) is a link of user \(owner)")
      case .foreignParent(let parent, let owner):
        throw refusal(path, "\(parent) belongs to user \(owner)")
      case .writableParent(let parent):
        throw refusal(path, "other users may write to \(parent)")
      }
    }
  }

  /// Checks the owner and the mode of the directory or one of its files.
  ///
  /// - Throws: ``LMDBError/Code/unsafeDirectory`` if another user owns it or may write to it.
  static func check(_ status: FileStatus, _ path: String) throws(LMDBError) {
    guard status.owner == FileSystem.userID else {
      throw refusal(path, "it belongs to user \(status.owner), not to user \(FileSystem.userID)")
    }
    guard status.mode & 0o022 == 0 else { throw refusal(path, "other users may write to it") }
  }

  private static func refusal(_ path: String, _ reason: String) -> LMDBError {
    LMDBError(.unsafeDirectory, during: "open \(path) (\(reason))")
  }
}
