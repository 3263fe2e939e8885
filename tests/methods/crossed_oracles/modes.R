# The modes of crossed Bernoulli models by lme4, at given variances: Rscript modes.R DIRECTORY > modes-lme4.json
# With nAGQ = 0 the fixed effects are part of the penalised likelihood, as in slc_mix.
suppressMessages(library(lme4))
directory <- commandArgs(TRUE)[1]
terms <- c(item = "(1 | item)", slope = "(0 + z | item)", group = "(1 | group)", user = "(1 | user)")
variances <- list(
  crossed = c(item = 0.5, slope = 0.25, group = 0.3, user = 0.2),
  nested = c(item = 0.4, group = 0.6),
  offset = c(item = 1.0, slope = 0.1, user = 0.5)
)
number <- function(x) paste0("[", paste(sprintf("%.10g", x), collapse = ", "), "]")
logs <- c()
for (name in names(variances)) {
  d <- read.csv(file.path(directory, paste0(name, ".csv")))
  d$z <- (d$logit - mean(d$logit)) / sqrt(mean((d$logit - mean(d$logit))^2))
  v <- variances[[name]]
  formula <- as.formula(paste("label ~ z +", paste(terms[names(v)], collapse = " + ")))
  control <- glmerControl(tolPwrss = 1e-13)
  parts <- glFormula(formula, d, family = binomial, offset = d$offset, control = control)
  deviance <- do.call(mkGlmerDevfun, c(parts, list(control = control)))
  # Terms may have been ordered anew: a slope has the column z, the others are named by their factor.
  factors <- names(parts$reTrms$cnms)
  kinds <- ifelse(unlist(parts$reTrms$cnms) == "z", "slope", sub("\\..*", "", factors))
  deviance(unname(sqrt(v[kinds])))
  pp <- environment(deviance)$pp
  b <- pp$b(1)
  beta <- pp$beta(1)
  start <- parts$reTrms$Gp
  blocks <- c()
  for (k in seq_along(kinds)) {
    own <- b[(start[k] + 1):start[k + 1]]
    levels <- as.integer(rownames(parts$reTrms$Zt)[(start[k] + 1):start[k + 1]])
    blocks <- c(blocks, sprintf('"%s": %s', kinds[k], number(own[order(levels)])))
  }
  line <- sprintf('"line": %s', number(c(beta[2], beta[1])))
  logs <- c(logs, sprintf('"%s": {%s}', name, paste(c(line, blocks), collapse = ",\n  ")))
}
cat("{", paste(logs, collapse = ",\n"), "}\n", sep = "\n")
message(R.version.string, ", lme4 ", packageVersion("lme4"))
